/* Python, in whose process TensorFlow loads the plugin: functions of its stable ABI, found at run time. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

#include "plugin.h"

typedef struct {
    int (*take)(void);
    void (*give)(int);
    void *(*import)(const char *);
    void *(*attribute)(void *, const char *);
    void *(*call)(void *, void *);
    void *(*string)(void *);
    const char *(*text)(void *, void *);
    void (*clear)(void);
    void (*release)(void *);
} Python;

static bool find_python(Python *python) {
    static const char *const names[] = {
        "PyGILState_Ensure", "PyGILState_Release", "PyImport_ImportModule",
        "PyObject_GetAttrString", "PyObject_CallObject", "PyObject_Str",
        "PyUnicode_AsUTF8AndSize", "PyErr_Clear", "Py_DecRef"};
    void **slot = (void **)python;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!(slot[i] = dlsym(RTLD_DEFAULT, names[i]))) return false;
    return true;
}

/* A step that needs the one before; gives up what that made. */
static void *next(const Python *python, void *before, void *made) {
    if (before) python->release(before);
    return made;
}

bool call_python(const char *module, const char *function, char *text, size_t size) {
    Python python;
    if (!find_python(&python)) return false;
    int gil = python.take();
    void *object = python.import(module);
    if (object) object = next(&python, object, python.attribute(object, function));
    if (object) object = next(&python, object, python.call(object, NULL));
    if (object) object = next(&python, object, python.string(object));
    const char *found = object ? python.text(object, NULL) : NULL;
    if (found && text) snprintf(text, size, "%s", found);
    if (object) python.release(object);
    python.clear();
    python.give(gil);
    return found;
}

bool holds_python(void) {
    static int (*_Atomic check)(void);
    int (*known)(void) = check;
    if (!known) check = known = (int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Check");
    return known && known();
}
