"""A small C program that runs a compiled one, and for WebAssembly one in JavaScript."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files

from xladev.aot.header import comment, type_text
from xladev.aot.interface import BEST_ALIGNMENT, CValue, Interface


def example(interface: Interface) -> str:
    """C99 and C++: arguments from files or zeros, results printed and written to files."""
    name, upper = interface.name, interface.name.upper()
    is_shared = interface.threads > 1
    sources = "xladev_threads.c -pthread " if is_shared else ""
    build = f"cc -std=c99 -Wall -Wextra -O2 NAME_example.c {sources}-L. -lNAME -o NAME_example"
    lines = [
        f"/* Runs {name} once and prints how its results begin.",
        " *",
        f" *     {build}",
        " *     ./NAME_example                        arguments are zeros",
        " *     ./NAME_example ARGUMENT...            raw files, one for each argument",
        " *     ./NAME_example ARGUMENT... RESULT...  and files to write the results to",
        " */",
        f'#include "{name}.h"',
        *(['#include "xladev_threads.h"'] if is_shared else []),
        "",
        "#include <stdio.h>",
        "#include <string.h>",
        "",
        *_memory(interface, upper),
        *_files(interface),
        *_printers(interface),
        "int main(int argc, char **argv) {",
        f"  {name}_context context;",
        f"  {name}_status status;",
        "  const char *culprit;",
        f"  const int given = argc - 1, arguments = {upper}_ARGUMENT_COUNT;",
        f"  const int results = {upper}_RESULT_COUNT;",
        f"  void *memory = take({upper}_MEMORY_NBYTES);",
        *(_storage(name, upper, a) for a in interface.arguments),
        "  if (given != 0 && given != arguments && given != arguments + results) {",
        '    fprintf(stderr, "%s takes %d files of arguments, and %d of results if wanted\\n",',
        "            argv[0], arguments, results);",
        "    return 2;",
        "  }",
        *_read_arguments(interface, upper),
        f"  status = {name}_init(&context, memory, {upper}_MEMORY_NBYTES);",
        f'  if (status != {upper}_OK) return fail({name}_status_string(status), "memory");',
        *(f"  {name}_set_arg_{a.name}(&context, {_variable(a)});" for a in interface.arguments),
        f"  culprit = {name}_culprit(&context, &status);",
        f"  if (culprit != NULL) return fail({name}_status_string(status), culprit);",
        *([f"  xladev_threads_start({interface.threads});"] if is_shared else []),
        f"  status = {name}_run(&context);",
        *(["  xladev_threads_stop();"] if is_shared else []),
        f'  if (status != {upper}_OK) return fail({name}_status_string(status), "run");',
        *(line for r in interface.results for line in _show(name, upper, r)),
        *_write_results(interface, upper),
        "  return 0;",
        "}",
    ]
    return (
        "\n".join(lines).replace("NAME_example", f"{name}_example").replace("-lNAME", f"-l{name}")
        + "\n"
    )


def _memory(interface: Interface, upper: str) -> Iterator[str]:
    buffers = 1 + len(interface.arguments)
    yield "/* All memory: scratch and results, then each argument, aligned. */"
    yield f"static unsigned char arena[{upper}_MEMORY_NBYTES"
    for value in interface.arguments:
        yield f"                           + {upper}_ARG_{value.name.upper()}_NBYTES"
    yield f"                           + {buffers} * {upper}_BEST_ALIGNMENT];"
    yield "static size_t used = 0;"
    yield ""
    yield "static void *take(size_t nbytes) {"
    yield (f"  unsigned char *found = (unsigned char *){interface.name}_align(arena + used);")
    yield "  used = (size_t)(found - arena) + nbytes;"
    yield "  return found;"
    yield "}"
    yield ""


def _files(interface: Interface) -> Iterator[str]:
    """What the example needs of the file system: nothing where it neither reads nor writes."""
    yield "static int fail(const char *why, const char *where) {"
    yield '  fprintf(stderr, "%s: %s\\n", where, why);'
    yield "  return 1;"
    yield "}"
    yield ""
    if interface.arguments:
        yield from _READ_FILE
    if interface.results:
        yield from _WRITE_FILE


_READ_FILE = (
    "/* Reads a whole file of exactly `nbytes`; 0 if it is not so. */",
    "static int read_file(const char *path, void *data, size_t nbytes) {",
    '  FILE *file = fopen(path, "rb");',
    "  int whole;",
    "  if (file == NULL) return 0;",
    "  whole = fread(data, 1, nbytes, file) == nbytes && fgetc(file) == EOF;",
    "  fclose(file);",
    "  return whole;",
    "}",
    "",
)
_WRITE_FILE = (
    "static int write_file(const char *path, const void *data, size_t nbytes) {",
    '  FILE *file = fopen(path, "wb");',
    "  int whole;",
    "  if (file == NULL) return 0;",
    "  whole = fwrite(data, 1, nbytes, file) == nbytes;",
    "  return fclose(file) == 0 && whole;",
    "}",
    "",
)


def _printers(interface: Interface) -> Iterator[str]:
    """One function that prints an element, for each C type among the results."""
    name = interface.name
    for c_type in dict.fromkeys(r.c_type(name) for r in interface.results):
        yield f"static void print_{c_type}({c_type} value) {{ {_print(c_type)} }}"
        yield ""


def _print(c_type: str) -> str:
    if "complex" in c_type:
        return 'printf(" (%g, %g)", (double)value.real, (double)value.imag);'
    if c_type in ("float", "double"):
        return 'printf(" %g", (double)value);'
    if c_type.startswith("uint"):
        return 'printf(" %lu", (unsigned long)value);'
    return 'printf(" %ld", (long)value);'


def _variable(value: CValue) -> str:
    """A name of a local variable: no other name and no keyword begins so."""
    return f"arg_{value.name}"


def _storage(name: str, upper: str, value: CValue) -> str:
    c_type = value.c_type(name)
    size = f"{upper}_ARG_{value.name.upper()}_NBYTES"
    return f"  {c_type} *{_variable(value)} = ({c_type} *)take({size});"


def _read_arguments(interface: Interface, upper: str) -> Iterator[str]:
    for number, value in enumerate(interface.arguments, 1):
        size = f"{upper}_ARG_{value.name.upper()}_NBYTES"
        variable = _variable(value)
        yield f"  if (given == 0) memset({variable}, 0, {size});"
        yield f"  else if (!read_file(argv[{number}], {variable}, {size}))"
        yield f'    return fail("is no file of " "{value.nbytes} bytes", argv[{number}]);'


def _show(name: str, upper: str, value: CValue) -> Iterator[str]:
    c_type = value.c_type(name)
    yield "  {"
    yield f"    const {c_type} *data = {name}_result_{value.name}(&context);"
    yield f"    const int shown = {min(value.shape.size, 8)};"
    yield "    int i;"
    yield f'    printf("{value.name} = {type_text(value)}");'
    yield f"    for (i = 0; i < shown; ++i) print_{c_type}(data[i]);"
    more = " ..." if value.shape.size > 8 else ""
    yield f'    printf("{more}\\n");'
    yield "  }"


def _write_results(interface: Interface, upper: str) -> Iterator[str]:
    for number, value in enumerate(interface.results, 1):
        size = f"{upper}_RESULT_{value.name.upper()}_NBYTES"
        data = f"{interface.name}_result_{value.name}(&context)"
        yield f"  if (given > arguments && !write_file(argv[arguments + {number}], {data}, {size}))"
        yield f'    return fail("cannot be written", argv[arguments + {number}]);'


def web_example(interface: Interface) -> str:
    """JavaScript for Node and browsers: places buffers behind the heap's base and calls."""
    name = interface.name
    data = {
        "arguments": [[a.name, a.nbytes, a.partner] for a in interface.arguments],
        "results": [[r.name, r.nbytes, r.partner] for r in interface.results],
        "scratch": interface.scratch_nbytes,
        "alignment": BEST_ALIGNMENT,
    }
    filled = {
        "NAME": name,
        "ENTRY": interface.entry,
        "TARGET": comment(interface.target),
        "MODULE": comment(interface.module),
        "PROGRAM": json.dumps(data, indent=2),
    }
    text = files("xladev.aot").joinpath("web_example.mjs").read_text("utf-8")
    for key, value in filled.items():
        text = text.replace(f"@{key}@", value)
    return text
