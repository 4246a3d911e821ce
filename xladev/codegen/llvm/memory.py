"""Addresses, loads and stores."""

from __future__ import annotations

from xladev.codegen.llvm.emitter import InstructionEmitter
from xladev.codegen.llvm.instructions import (
    FenceInst,
    GetElementPtrInst,
    LoadInst,
    MemCpyInst,
    StoreInst,
)
from xladev.codegen.llvm.types import I8, I64, PTR, VOID, IrType
from xladev.codegen.llvm.values import Value


class MemoryEmitter(InstructionEmitter):
    """Instructions that touch memory; alignment in bytes, metadata such as ``!noalias !3``."""

    def element_address(
        self, base: Value, index: Value | int, element: IrType, inbounds: bool = True
    ) -> Value:
        """Address of element ``index`` of an array of ``element`` at ``base``."""
        flag = " inbounds" if inbounds else ""
        place = index if isinstance(index, Value) else self.const(I64, index)
        made = self.emit(PTR, f"getelementptr{flag} {element}, ptr {base.text}, {place}")
        if self._keeps:
            self._note(GetElementPtrInst(element, base, place, made.text))
        return made

    def byte_address(self, base: Value, offset: Value | int) -> Value:
        """Address ``offset`` bytes after ``base``."""
        place = offset if isinstance(offset, Value) else self.const(I64, offset)
        made = self.emit(PTR, f"getelementptr inbounds i8, ptr {base.text}, {place}")
        if self._keeps:
            self._note(GetElementPtrInst(I8, base, place, made.text))
        return made

    def load(
        self,
        type_: IrType,
        address: Value,
        *,
        align: int | None = None,
        metadata: str = "",
        volatile: bool = False,
    ) -> Value:
        """Reads a value; natural alignment of one element unless told otherwise."""
        word = "load volatile" if volatile else "load"
        extra = f", {metadata}" if metadata else ""
        place = f"ptr {address.text}, align {align or self.alignment(type_)}"
        made = self.emit(type_, f"{word} {type_.text}, {place}{extra}")
        if self._keeps and not volatile:
            self._note(LoadInst(type_, address, made.text))
        return made

    def masked_load(self, type_: IrType, address: Value, mask: Value) -> Value:
        """Reads the lanes of a mask from neighbours in memory; others are zeros, and not read."""
        kind, chosen = type_.text, mask.type.text
        symbol = f"llvm.masked.load.{type_.mangled}.p0"
        self.module.declare_intrinsic(symbol, type_, ("ptr", "i32", chosen, kind))
        align = self.alignment(type_.scalar())
        operands = f"ptr {address.text}, i32 {align}, {mask}, {kind} zeroinitializer"
        return self.emit(type_, f"call {kind} @{symbol}({operands})")

    def masked_gather(self, type_: IrType, base: Value, indices: Value, mask: Value) -> Value:
        """Reads the lanes of a mask from elements ``indices`` of an array; the others are zeros."""
        kind, chosen, lanes = type_.text, mask.type.text, type_.lanes
        places = IrType("ptr", lanes)
        symbol = f"llvm.masked.gather.{type_.mangled}.v{lanes}p0"
        self.module.declare_intrinsic(symbol, type_, (places.text, "i32", chosen, kind))
        element = type_.scalar()
        place = self.emit(places, f"getelementptr {element}, ptr {base.text}, {indices}")
        operands = f"{place}, i32 {self.alignment(element)}, {mask}, {kind} zeroinitializer"
        return self.emit(type_, f"call {kind} @{symbol}({operands})")

    def store(
        self, value: Value, address: Value, *, align: int | None = None, metadata: str = ""
    ) -> None:
        """Writes a value; natural alignment of one element unless told otherwise."""
        extra = f", {metadata}" if metadata else ""
        place = f"ptr {address.text}, align {align or self.alignment(value.type)}"
        self.do(f"store {value}, {place}{extra}")
        if self._keeps:
            self._note(StoreInst(value, address))

    def masked_store(self, value: Value, address: Value, mask: Value) -> None:
        """Writes the lanes of a mask to neighbours in memory; the others stay as they are."""
        kind, chosen = value.type.text, mask.type.text
        symbol = f"llvm.masked.store.{value.type.mangled}.p0"
        self.module.declare_intrinsic(symbol, VOID, (kind, "ptr", "i32", chosen))
        align = self.alignment(value.type.scalar())
        self.do(f"call void @{symbol}({value}, ptr {address.text}, i32 {align}, {mask})")

    def fence(self) -> None:
        """Makes what was stored before visible before what is stored after."""
        self.do("fence seq_cst")
        if self._keeps:
            self._note(FenceInst())

    def alignment(self, type_: IrType) -> int:
        """Bytes to which one element is aligned in memory."""
        if type_.element == "ptr":
            return self.module.target.pointer_nbytes
        return natural_alignment(type_)

    def copy_bytes(self, destination: Value, source: Value, nbytes: int) -> None:
        """Copies a number of bytes known now between regions that do not overlap."""
        self.module.declare_intrinsic("llvm.memcpy.p0.p0.i64", VOID, ("ptr", "ptr", "i64", "i1"))
        pointers = f"ptr {destination.text}, ptr {source.text}"
        self.do(f"call void @llvm.memcpy.p0.p0.i64({pointers}, i64 {nbytes}, i1 false)")
        if self._keeps:
            self._note(MemCpyInst(destination, source, nbytes))

    def prefetch(self, address: Value, *, is_near: bool = True, is_written: bool = False) -> None:
        """Asks for the cache line of an address, which need not be one of the process.

        Args:
            address: any address in the line.
            is_near: into the first level of cache; else the second.
            is_written: to be written, so that no other processor keeps it.
        """
        self.module.declare_intrinsic("llvm.prefetch.p0", VOID, ("ptr", "i32", "i32", "i32"))
        how = f"i32 {int(is_written)}, i32 {3 if is_near else 2}"
        self.do(f"call void @llvm.prefetch.p0(ptr {address.text}, {how}, i32 1)")

    def table(self, name: str, element: IrType, numbers: tuple[float | int, ...]) -> Value:
        """Address of a constant array of the module, made once per name."""
        return self.module.constant_table(name, element, numbers)


def natural_alignment(type_: IrType) -> int:
    """Bytes to which one element is aligned."""
    return max(1, (type_.bits + 7) // 8)
