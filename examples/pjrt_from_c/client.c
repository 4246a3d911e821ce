/* A PJRT client in C: loads the library, compiles a module, runs it on two vectors.
 *
 *     cc -I packaging/xladev-pjrt/src examples/pjrt_from_c/client.c -o client
 *     ./client libxladev_pjrt.so cpu hlo add.pb
 *
 * The module takes two f32[4] and gives one. The format is "hlo" for a serialized HloModuleProto, or
 * "mlir" for StableHLO, which needs jaxlib.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrt_args.h"

typedef PJRT_Error *(*Function)(void *args);

enum {
#define SLOT(name) SLOT_##name,
#include "pjrt_slots.h"
#undef SLOT
};

static const char *table; /* begins with size, extensions and version: 40 bytes */

static Function function(int slot) { return ((const Function *)(table + 40))[slot]; }

static void check(PJRT_Error *error, const char *what) {
    if (!error) return;
    PJRT_Error_Message_Args message = {sizeof message, NULL, error, NULL, 0};
    function(SLOT_Error_Message)(&message);
    fprintf(stderr, "%s: %.*s\n", what, (int)message.message_size, message.message);
    exit(1);
}

#define CALL(name, args) check(function(SLOT_##name)(&(args)), #name)

static char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(1);
    }
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    char *data = malloc(*size + 1);
    if (fread(data, 1, *size, file) != *size) exit(1);
    fclose(file);
    return data;
}

static PJRT_Client *open_client(const char *platform) {
    PJRT_NamedValue option = {.struct_size = sizeof option, .name = "platform", .name_size = 8};
    option.string_value = platform;
    option.value_size = strlen(platform);
    PJRT_Client_Create_Args create = {.struct_size = sizeof create, .create_options = &option};
    create.num_options = 1;
    CALL(Client_Create, create);
    return create.client;
}

static PJRT_LoadedExecutable *compile(PJRT_Client *client, char *format, const char *path) {
    PJRT_Program program = {.struct_size = sizeof program, .format = format};
    program.format_size = strlen(format);
    program.code = read_file(path, &program.code_size);
    PJRT_Client_Compile_Args args = {.struct_size = sizeof args, .client = client};
    args.program = &program;
    args.compile_options = "";
    CALL(Client_Compile, args);
    free(program.code);
    return args.executable;
}

static PJRT_Buffer *send(PJRT_Client *client, PJRT_Device *device, const float *values) {
    static const int64_t dims[] = {4};
    PJRT_Client_BufferFromHostBuffer_Args args = {.struct_size = sizeof args, .client = client};
    args.data = values;
    args.type = PJRT_Buffer_Type_F32;
    args.dims = dims;
    args.num_dims = 1;
    args.device = device;
    CALL(Client_BufferFromHostBuffer, args);
    return args.buffer;
}

static PJRT_Buffer *execute(PJRT_LoadedExecutable *program, PJRT_Buffer *const *arguments) {
    PJRT_Buffer *result = NULL, **results = &result;
    PJRT_ExecuteOptions options = {.struct_size = sizeof options};
    PJRT_LoadedExecutable_Execute_Args args = {.struct_size = sizeof args, .executable = program};
    args.options = &options;
    args.argument_lists = &arguments;
    args.num_devices = 1;
    args.num_args = 2;
    args.output_lists = &results;
    CALL(LoadedExecutable_Execute, args);
    return result;
}

static void fetch(PJRT_Buffer *buffer, float *values) {
    PJRT_Buffer_ToHostBuffer_Args args = {.struct_size = sizeof args, .src = buffer};
    args.dst = values;
    args.dst_size = 4 * sizeof *values;
    CALL(Buffer_ToHostBuffer, args);
    PJRT_Event_Await_Args wait = {sizeof wait, NULL, args.event};
    CALL(Event_Await, wait);
    PJRT_Event_Destroy_Args destroy = {sizeof destroy, NULL, args.event};
    CALL(Event_Destroy, destroy);
}

int main(int count, char **words) {
    if (count != 5) {
        fprintf(stderr, "usage: %s LIBRARY PLATFORM hlo|mlir MODULE\n", words[0]);
        return 2;
    }
    void *library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
    const void *(*get)(void) = NULL;
    if (library) *(void **)&get = dlsym(library, "GetPjrtApi");
    if (!get) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    table = get();
    PJRT_Client *client = open_client(words[2]);
    PJRT_Client_Devices_Args devices = {.struct_size = sizeof devices, .client = client};
    CALL(Client_Devices, devices);
    PJRT_LoadedExecutable *program = compile(client, words[3], words[4]);
    const float x[] = {1, 2, 3, 4}, y[] = {10, 20, 30, 40};
    PJRT_Buffer *arguments[] = {
        send(client, devices.devices[0], x), send(client, devices.devices[0], y)};
    float result[4];
    fetch(execute(program, arguments), result);
    printf("%zu devices: %g %g %g %g\n", devices.num_devices, result[0], result[1], result[2],
           result[3]);
    return 0;
}
