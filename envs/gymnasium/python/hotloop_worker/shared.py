"""The memory that a worker shares with its parent."""
import mmap

import numpy as np


class Shared:
    """Arrays in the memory that both processes see."""

    def __init__(self, descriptor, layout, lanes):
        memory = mmap.mmap(descriptor, layout["size"])

        def array(name, dtype, columns=None):
            shape = (lanes,) if columns is None else (lanes, columns)
            return np.ndarray(shape, dtype, buffer=memory, offset=layout["offsets"][name])

        self.at = memoryview(np.ndarray((1,), np.uint64, buffer=memory, offset=0)).cast("B").cast("Q")
        self.commands = array("commands", np.uint8)
        # Items of a memoryview are plain Python numbers, which NumPy's are not.
        self.seeds = memoryview(array("seeds", np.uint64))
        self.rewards = memoryview(array("rewards", np.float64))
        self.ends = memoryview(array("ends", np.uint8))
        self.actions = array("actions", np.uint8, layout["action"]["record"])
        self.observations = array("observations", np.uint8, layout["observation"]["record"])
        self.masks = array("masks", np.uint8, layout["mask"]) if layout["mask"] else None
        self.action_leaves = layout["action"]["leaves"]
        self.observation_leaves = layout["observation"]["leaves"]
