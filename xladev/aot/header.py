"""The C header of a compiled program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xladev import __version__
from xladev.aot.interface import BEST_ALIGNMENT, CValue, Interface
from xladev.errors import printable


def header(interface: Interface) -> str:
    """C99 and C++98: constants, typed setters and getters, and one function that runs."""
    name, upper = interface.name, interface.name.upper()
    lines = [
        *_introduction(interface),
        f"#ifndef {upper}_H",
        f"#define {upper}_H",
        "",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        *_status(name, upper),
        *_sizes(interface, upper),
        *_types(interface),
        *_context(interface, upper),
        *_tables(interface),
        *_init(interface, upper),
        *_accessors(interface, upper),
        *_run(interface, upper),
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        f"#endif /* {upper}_H */",
    ]
    return "\n".join(lines) + "\n"


def comment(text: str) -> str:
    """The text in one line, where no comment of C or JavaScript ends inside it."""
    return printable(" ".join(text.split()).replace("*/", "* /").replace("/*", "/ *"))


def type_text(value: CValue) -> str:
    """Element type and sizes: ``f32[100,784]``."""
    dims = ",".join(map(str, value.shape.dims))
    return f"{value.shape.element_type.name}[{dims}]"


def _introduction(interface: Interface) -> Iterator[str]:
    name = interface.name
    yield f"/* {name}.h: made by xladev {__version__} from HLO module {comment(interface.module)}."
    yield f" * Code for {comment(interface.target)}, in {name}.o and lib{name}.a. Not to be edited."
    yield " *"
    yield f" *     {name}_context context;"
    yield f" *     {name}_init(&context, memory, {name.upper()}_MEMORY_NBYTES);"
    for value in interface.arguments[:3]:
        yield f" *     {name}_set_arg_{value.name}(&context, {value.name});"
    if len(interface.arguments) > 3:
        yield " *     ..."
    yield f" *     if ({name}_run(&context) == {name.upper()}_OK) {{"
    for value in interface.results[:1]:
        yield f" *         ... {name}_result_{value.name}(&context)[0] ..."
    yield " *     }"
    yield " *"
    yield " * Memory: nothing is allocated. The caller gives arguments, and memory for scratch"
    yield " * and results, and keeps all of it while it is in use. Buffers do not overlap, but for"
    yield " * a result that is computed in the place of an argument. Arrays are in the order of C:"
    yield " * the last dimension is contiguous."
    yield " *"
    yield f" * Threads: {name}_run works on what the context points to, and on constants that"
    yield " * nobody writes. Calls on different contexts, with memory and results of their own, may"
    yield " * run at the same time and may share arguments that are const. One context is for one"
    yield " * thread at a time. The floating-point environment is the default: round to nearest."
    yield from _on_helpers(interface)
    yield " */"


def _on_helpers(interface: Interface) -> Iterator[str]:
    """What code for several threads wants besides."""
    if interface.threads > 1:
        yield " *"
        yield f" * A run is shared by up to {interface.threads} threads: build with -pthread and"
        yield " * xladev_threads.c, and call xladev_threads_start once. Results are the same for"
        yield " * any number of them."


def _status(name: str, upper: str) -> Iterator[str]:
    yield f"typedef enum {name}_status {{"
    yield f"  {upper}_OK = 0,"
    yield f"  {upper}_NULL_POINTER = 1, /* the context, or a buffer of it, was not given */"
    yield f"  {upper}_MISALIGNED = 2,   /* a buffer is not at a multiple of {upper}_ALIGNMENT */"
    yield f"  {upper}_TOO_SMALL = 3,    /* fewer than {upper}_MEMORY_NBYTES bytes */"
    yield f"  {upper}_NOT_IN_PLACE = 4, /* a result is not in the place of its argument */"
    yield f"  {upper}_FAILED = 5        /* the program itself reported an error */"
    yield f"}} {name}_status;"
    yield ""
    yield "/* What a status means, in English; never NULL. */"
    yield f"static inline const char *{name}_status_string({name}_status status) {{"
    yield "  switch (status) {"
    for code, text in (
        ("OK", "success"),
        ("NULL_POINTER", "the context, an argument, a result or the memory is a null pointer"),
        ("MISALIGNED", "a buffer is not aligned as the program needs it"),
        ("TOO_SMALL", "the memory is smaller than the program needs"),
        ("NOT_IN_PLACE", "a result is not in the place of the argument that it replaces"),
        ("FAILED", "the program reported an error"),
    ):
        yield f'    case {upper}_{code}: return "{text}";'
    yield "  }"
    yield '  return "unknown status";'
    yield "}"
    yield ""


def _sizes(interface: Interface, upper: str) -> Iterator[str]:
    yield "/* Every buffer is at a multiple of so many bytes. */"
    yield f"#define {upper}_ALIGNMENT {interface.alignment}"
    yield "/* Where buffers are at multiples of so many, vectors cross no cache lines. */"
    yield f"#define {upper}_BEST_ALIGNMENT {BEST_ALIGNMENT}"
    yield f"/* Memory that {interface.name}_init wants: scratch, and results that have no other. */"
    yield f"#define {upper}_MEMORY_NBYTES {interface.memory_nbytes}"
    yield "/* What of it is scratch; nothing in it is kept from one run to the next. */"
    yield f"#define {upper}_SCRATCH_NBYTES {interface.scratch_nbytes}"
    yield f"#define {upper}_ARGUMENT_COUNT {len(interface.arguments)}"
    yield f"#define {upper}_RESULT_COUNT {len(interface.results)}"
    yield ""


def _types(interface: Interface) -> Iterator[str]:
    used = {v.shape.element_type.name for v in interface.values}
    for element, c_type in (("c64", "float"), ("c128", "double")):
        if element in used:
            bits = element[1:]
            yield f"/* As {c_type} _Complex in C and std::complex<{c_type}> in C++. */"
            yield f"typedef struct {interface.name}_complex{bits} {{"
            yield f"  {c_type} real;"
            yield f"  {c_type} imag;"
            yield f"}} {interface.name}_complex{bits};"
            yield ""


def _context(interface: Interface, upper: str) -> Iterator[str]:
    name = interface.name
    yield "/* Where everything is. To be filled by the functions below. */"
    yield f"typedef struct {name}_context {{"
    yield f"  const void *arguments[{max(len(interface.arguments), 1)}];"
    yield f"  void *results[{max(len(interface.results), 1)}];"
    yield "  void *scratch;"
    yield f"}} {name}_context;"
    yield ""
    yield "/* The compiled code, for callers that are not in C: checks nothing, 0 is success."
    yield " * The first pointer is NULL. Buffers are in the order of the tables below. */"
    yield f"int32_t {interface.entry}(void *reserved, const void *const *arguments,"
    yield f"{'':{len(interface.entry) + 9}}void *const *results, void *scratch);"
    yield ""


def _tables(interface: Interface) -> Iterator[str]:
    name = interface.name
    yield "/* One buffer of the program. */"
    yield f"typedef struct {name}_buffer {{"
    yield "  const char *name;"
    yield '  const char *element_type; /* as HLO spells it: "f32" */'
    yield "  size_t size;              /* elements */"
    yield "  size_t nbytes;            /* bytes */"
    yield "  size_t rank;"
    yield "  const size_t *dims; /* outermost first; NULL for a scalar */"
    yield "  int partner; /* number of the result, or argument, in the same place; -1 for none */"
    yield f"}} {name}_buffer;"
    yield ""
    for kind, values in (("argument", interface.arguments), ("result", interface.results)):
        if values:
            yield from _table(name, kind, values)


def _table(name: str, kind: str, values: Sequence[CValue]) -> Iterator[str]:
    yield f"/* All {kind}s, in order. */"
    yield f"static inline const {name}_buffer *{name}_{kind}s(void) {{"
    for number, value in enumerate(values):
        if value.shape.dims:
            dims = ", ".join(map(str, value.shape.dims))
            yield f"  static const size_t dims{number}[] = {{{dims}}};"
    yield f"  static const {name}_buffer table[] = {{"
    for number, value in enumerate(values):
        shape = value.shape
        dims = f"dims{number}" if shape.dims else "NULL"
        yield (
            f'    {{"{value.name}", "{shape.element_type.name}", {shape.size}, {value.nbytes}, '
            f"{shape.rank}, {dims}, {value.partner}}},"
        )
    yield "  };"
    yield "  return table;"
    yield "}"
    yield ""


def _init(interface: Interface, upper: str) -> Iterator[str]:
    name = interface.name
    yield "/* Prepares a context: scratch and results are in `memory`, arguments are not set yet."
    yield " * A result in the place of an argument is where that argument is set. */"
    yield (
        f"static inline {name}_status {name}_init({name}_context *context, "
        "void *memory, size_t nbytes) {"
    )
    yield "  unsigned char *bytes = (unsigned char *)memory;"
    yield f"  if (context == NULL || memory == NULL) return {upper}_NULL_POINTER;"
    yield f"  if ((uintptr_t)memory % {upper}_ALIGNMENT != 0) return {upper}_MISALIGNED;"
    yield f"  if (nbytes < {upper}_MEMORY_NBYTES) return {upper}_TOO_SMALL;"
    for number in range(len(interface.arguments)):
        yield f"  context->arguments[{number}] = NULL;"
    for number, offset in enumerate(interface.result_offsets):
        place = "NULL" if offset is None else f"bytes + {offset}"
        yield f"  context->results[{number}] = {place};"
    yield "  context->scratch = bytes;"
    yield f"  return {upper}_OK;"
    yield "}"
    yield ""
    best = f"{upper}_BEST_ALIGNMENT"
    yield f"/* The first address from `pointer` on that is at a multiple of {best}:"
    yield f" * for memory that is larger by {best} - 1 bytes than what is wanted. */"
    yield f"static inline void *{name}_align(void *pointer) {{"
    yield f"  const size_t past = (size_t)((uintptr_t)pointer % {best});"
    yield f"  return (unsigned char *)pointer + (past == 0 ? 0 : {best} - past);"
    yield "}"
    yield ""


def _accessors(interface: Interface, upper: str) -> Iterator[str]:
    for number, value in enumerate(interface.arguments):
        yield from _facts("argument", number, value)
        yield from _constants(f"{upper}_ARG_{value.name.upper()}", value)
        yield from _argument(interface.name, number, value)
        yield ""
    for number, value in enumerate(interface.results):
        yield from _facts("result", number, value)
        yield from _constants(f"{upper}_RESULT_{value.name.upper()}", value)
        yield from _result(interface.name, number, value)
        yield ""


def _facts(kind: str, number: int, value: CValue) -> Iterator[str]:
    note = f" Elements: {value.note}." if value.note else ""
    yield f"/* {kind.capitalize()} {number}, {value.name}: {type_text(value)}."
    yield f" * In HLO: {comment(value.source)}.{note}"
    if value.alias and kind == "argument":
        yield f" * Overwritten: result {value.alias} is computed in its place."
    elif value.alias:
        yield f" * In the place of argument {value.alias}, which it replaces."
    yield " */"


def _constants(prefix: str, value: CValue) -> Iterator[str]:
    yield f"#define {prefix}_SIZE {value.shape.size}"
    yield f"#define {prefix}_NBYTES {value.nbytes}"
    yield f"#define {prefix}_RANK {value.shape.rank}"
    for number, size in enumerate(value.shape.dims):
        yield f"#define {prefix}_DIM{number} {size}"


def _argument(name: str, number: int, value: CValue) -> Iterator[str]:
    own = value.c_type(name)
    c_type = own if value.alias else f"const {own}"
    setter = f"{name}_set_arg_{value.name}({name}_context *context, {c_type} *data)"
    yield f"static inline void {setter} {{"
    yield f"  context->arguments[{number}] = data;"
    if value.alias:
        yield f"  context->results[{value.partner}] = data;"
    yield "}"
    getter = f"{name}_arg_{value.name}(const {name}_context *context)"
    yield f"static inline const {own} *{getter} {{"
    yield f"  return (const {own} *)context->arguments[{number}];"
    yield "}"


def _result(name: str, number: int, value: CValue) -> Iterator[str]:
    c_type = value.c_type(name)
    if not value.alias:
        setter = f"{name}_set_result_{value.name}({name}_context *context, {c_type} *data)"
        yield f"static inline void {setter} {{"
        yield f"  context->results[{number}] = data;"
        yield "}"
    getter = f"{name}_result_{value.name}(const {name}_context *context)"
    yield f"static inline {c_type} *{getter} {{"
    yield f"  return ({c_type} *)context->results[{number}];"
    yield "}"


def _run(interface: Interface, upper: str) -> Iterator[str]:
    name = interface.name
    yield "/* NULL if the context is complete; else the name of the first buffer that is not, with"
    yield " * why in `status`, unless that is NULL. */"
    yield (
        f"static inline const char *{name}_culprit(const {name}_context *context, "
        f"{name}_status *status) {{"
    )
    yield f"  {name}_status found = {upper}_OK;"
    yield "  const char *culprit = NULL;"
    if interface.values:
        yield "  size_t i;"
    yield "  if (context == NULL || context->scratch == NULL) {"
    yield f"    found = {upper}_NULL_POINTER;"
    yield '    culprit = context == NULL ? "context" : "scratch";'
    yield "  }"
    if interface.arguments:
        yield from _check(name, upper, "argument", interface.arguments)
    if interface.results:
        yield from _check(name, upper, "result", interface.results)
    yield "  if (status != NULL) *status = found;"
    yield "  return culprit;"
    yield "}"
    yield ""
    yield "/* Runs the program: reads the arguments, writes the results. */"
    yield f"static inline {name}_status {name}_run(const {name}_context *context) {{"
    yield f"  {name}_status status;"
    yield f"  if ({name}_culprit(context, &status) != NULL) return status;"
    yield f"  return {interface.entry}(NULL, context->arguments, context->results,"
    yield f"{'':{len(interface.entry) + 10}}context->scratch) == 0"
    yield f"             ? {upper}_OK"
    yield f"             : {upper}_FAILED;"
    yield "}"


def _check(name: str, upper: str, kind: str, values: Sequence[CValue]) -> Iterator[str]:
    yield f"  for (i = 0; culprit == NULL && i < {upper}_{kind.upper()}_COUNT; ++i) {{"
    yield f"    const {name}_buffer *buffer = {name}_{kind}s() + i;"
    yield f"    const void *data = context->{kind}s[i];"
    if kind == "result" and any(value.alias for value in values):
        yield "    if (buffer->partner >= 0 && data != context->arguments[buffer->partner]) {"
        yield f"      found = {upper}_NOT_IN_PLACE;"
        yield "      culprit = buffer->name;"
        yield "    }"
    yield "    if (buffer->nbytes == 0) continue;"
    yield f"    if (data == NULL) found = {upper}_NULL_POINTER;"
    yield f"    if ((uintptr_t)data % {upper}_ALIGNMENT != 0) found = {upper}_MISALIGNED;"
    yield f"    if (found != {upper}_OK) culprit = buffer->name;"
    yield "  }"
