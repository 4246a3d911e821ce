"""Buffer: owned device memory, whoever gives it back."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from xladev.hlo.physical import HostArray
from xladev.runtime.memory import DeviceMemory


class Buffer:
    """Device memory that is given back some time after nobody refers to it any more.

    A class of attributes alone: what native code makes of it needs no room for more.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def memory(self) -> DeviceMemory:
        """The range of bytes."""

    @property
    @abstractmethod
    def label(self) -> str:
        """What it holds, for messages, such as ``result 0 of jit_step f32[8,8]``."""

    @property
    @abstractmethod
    def host_owner(self) -> object:
        """The host array whose memory it is; None if it was allocated."""

    @property
    @abstractmethod
    def is_gone(self) -> bool:
        """True if a reset of the device has taken the memory away."""

    @staticmethod
    def show(array: Any) -> HostArray | None:
        """What `DeviceArray.numpy` gives, if native code makes it.

        Args:
            array: a DeviceArray of this buffer; it remembers what it has given, in ``_view``.

        Returns:
            A read-only array that keeps the buffer; None (the default) if Python has to do it.
        """
        return None
