/* Functions of TensorFlow's libraries, which are in the process already.
 *
 * The wheel has no C functions for some of what a device needs, but exports the C++ ones. Their names
 * are mangled, and those that mention Abseil contain its release: these are found by what comes
 * before, in the table of dynamic symbols.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

#define SUPPORTED "TensorFlow 2.19 to 2.21 on Python 3.11 and 3.12"
enum { FIRST_MINOR = 19, LAST_MINOR = 21 };

TensorFlow tensorflow;

/* The first is where the C++ functions are; the rest of TensorFlow 2.19 to 2.21 is in the second. */
static const char *const LIBRARIES[] = {"libtensorflow_cc.so.2", "libtensorflow_framework.so.2"};
enum { NUM_LIBRARIES = sizeof LIBRARIES / sizeof *LIBRARIES };

static void *library(size_t index) {
    static void *handles[NUM_LIBRARIES];
    if (!handles[index]) handles[index] = dlopen(LIBRARIES[index], RTLD_NOLOAD | RTLD_LAZY);
    return handles[index];
}

/* How many symbols a library has: the GNU hash table's last chain ends with the last of them. */
static size_t count_symbols(const uint32_t *table) {
    uint32_t buckets = table[0], first = table[1], words = table[2];
    const uint32_t *bucket = table + 4 + words * (sizeof(size_t) / sizeof(uint32_t));
    const uint32_t *chain = bucket + buckets;
    uint32_t last = 0;
    for (uint32_t i = 0; i < buckets; i++)
        if (bucket[i] > last) last = bucket[i];
    if (last < first) return first;
    while (!(chain[last - first] & 1)) last++;
    return last + 1;
}

static void *find_by_prefix(void *handle, const char *prefix) {
    struct link_map *map;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map)) return NULL;
    const ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    const uint32_t *hashes = NULL;
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB) symbols = (const void *)entry->d_un.d_ptr;
        if (entry->d_tag == DT_STRTAB) names = (const void *)entry->d_un.d_ptr;
        if (entry->d_tag == DT_GNU_HASH) hashes = (const void *)entry->d_un.d_ptr;
    }
    if (!symbols || !names || !hashes) return NULL;
    size_t count = count_symbols(hashes), size = strlen(prefix);
    for (size_t i = 0; i < count; i++)
        if (symbols[i].st_shndx && ELF64_ST_TYPE(symbols[i].st_info) == STT_FUNC &&
            !strncmp(names + symbols[i].st_name, prefix, size))
            return (void *)(map->l_addr + symbols[i].st_value);
    return NULL;
}

/* Releases of Abseil in the names of TensorFlow 2.21, 2.20 and 2.19: what is found by name takes no time. */
static const char *const ABSEIL[] = {"20250814", "20250127", "20230802"};
enum { NUM_ABSEIL = sizeof ABSEIL / sizeof *ABSEIL, NAME_SIZE = 512 };

void *find_symbol(const char *name) {
    for (size_t i = 0; i < NUM_LIBRARIES; i++) {
        void *found = library(i) ? dlsym(library(i), name) : NULL;
        if (found) return found;
    }
    return NULL;
}

static void *find_with_abseil(const char *pattern) {
    for (size_t i = 0; i < NUM_ABSEIL; i++) {
        char name[NAME_SIZE];
        snprintf(name, sizeof name, pattern, ABSEIL[i]);
        void *found = find_symbol(name);
        if (found) return found;
    }
    return NULL;
}

/* A name is a pattern if Abseil's release is a part of it; what comes before finds other releases. */
static void *find(const char *name) {
    const char *variable = strstr(name, "%s");
    if (!variable) return find_symbol(name);
    void *found = find_with_abseil(name);
    char prefix[NAME_SIZE];
    snprintf(prefix, sizeof prefix, "%.*s", (int)(variable - name), name);
    for (size_t i = 0; !found && i < NUM_LIBRARIES; i++)
        if (library(i)) found = find_by_prefix(library(i), prefix);
    return found;
}

#define TEXT "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"

typedef struct {
    void **slot;
    const char *shown, *name;
} Wanted;

#define C_FUNCTION(slot, name) {&tensorflow.slot, #name, #name}

static const Wanted WANTED[] = {
    {&tensorflow.get_c_api_client, "xla::GetCApiClient",
     "_ZN3xla13GetCApiClientESt17basic_string_viewIcSt11char_traitsIcEERKN4absl12lts_%s13flat_hash_map"
     "I" TEXT "St7variantIJSA_blSt6vectorIlSaIlEEfEENS5_18container_internal10StringHashENSG_8StringEq"
     "ESaISt4pairIKSA_SF_EEEESt10shared_ptrINS_22KeyValueStoreInterfaceEE"},
    {&tensorflow.client_factories, "xla::PjrtClientFactoryRegistry::Get",
     "_ZN3xla25PjrtClientFactoryRegistry3GetEv"},
    {&tensorflow.register_client_factory, "xla::PjrtClientFactoryRegistry::RegisterPjrtClientFactory",
     "_ZN3xla25PjrtClientFactoryRegistry25RegisterPjrtClientFactoryERKN3tsl10DeviceTypeERKSt8function"
     "IFN4absl12lts_%s8StatusOrISt10unique_ptrINS_10PjRtClientESt14default_deleteISA_EEEERKNS_24Pjrt"
     "ClientFactoryOptionsEEE"},
    {&tensorflow.register_compilation_device, "tensorflow::XlaOpRegistry::RegisterCompilationDevice",
     "_ZN10tensorflow13XlaOpRegistry25RegisterCompilationDeviceERK" TEXT
     "RKNS0_18DeviceRegistrationE"},
    {&tensorflow.get_xla_ops_common_flags, "tensorflow::GetXlaOpsCommonFlags",
     "_ZN10tensorflow20GetXlaOpsCommonFlagsEv"},
    {&tensorflow.device_kernels, "tensorflow::XlaOpRegistry::DeviceKernels",
     "_ZN10tensorflow13XlaOpRegistry13DeviceKernelsERK" TEXT "b"},
    {&tensorflow.serialize_as_string, "google::protobuf::MessageLite::SerializeAsString",
     "_ZNK6google8protobuf11MessageLite17SerializeAsStringB5cxx11Ev"},
    {&tensorflow.parse_from_array, "google::protobuf::MessageLite::ParseFromArray",
     "_ZN6google8protobuf11MessageLite14ParseFromArrayEPKvi"},
    {&tensorflow.input, "tensorflow::OpKernelContext::input",
     "_ZNK10tensorflow15OpKernelContext5inputEi"},
    {&tensorflow.set_output, "tensorflow::OpKernelContext::set_output",
     "_ZN10tensorflow15OpKernelContext10set_outputEiRKNS_6TensorE"},
    {&tensorflow.create_op_kernel, "tensorflow::CreateOpKernel",
     "_ZN10tensorflow14CreateOpKernelEN3tsl10DeviceTypeEPNS_10DeviceBaseEPNS0_9AllocatorEPNS_22Functio"
     "nLibraryRuntimeEPNS_11ResourceMgrERKSt10shared_ptrIKNS_14NodePropertiesEEiPPNS_8OpKernelE"},
    {&tensorflow.new_device, "tensorflow::DeviceFactory::NewDevice",
     "_ZN10tensorflow13DeviceFactory9NewDeviceERK" TEXT "RKNS_14SessionOptionsES8_"},
    {&tensorflow.session_options, "tensorflow::SessionOptions::SessionOptions",
     "_ZN10tensorflow14SessionOptionsC1Ev"},
    C_FUNCTION(context_failure, TF_OpKernelContext_Failure),
    C_FUNCTION(construction_failure, TF_OpKernelConstruction_Failure),
    C_FUNCTION(set_status, TF_SetStatus),
    C_FUNCTION(new_status, TF_NewStatus),
    C_FUNCTION(delete_status, TF_DeleteStatus),
    C_FUNCTION(get_code, TF_GetCode),
    C_FUNCTION(message, TF_Message),
    C_FUNCTION(new_kernel, TF_NewKernelBuilder),
    C_FUNCTION(kernel_type, TF_KernelBuilder_TypeConstraint),
    C_FUNCTION(kernel_host_memory, TF_KernelBuilder_HostMemory),
    C_FUNCTION(register_kernel, TF_RegisterKernelBuilder),
};

static const char *version(void) {
    const char *(*ask)(void) = (const char *(*)(void))find_symbol("TF_Version");
    return ask ? ask() : "of unknown version";
}

int minor_version(void) {
    static int minor;
    if (!minor && sscanf(version(), "2.%d", &minor) != 1) minor = 0;
    return minor;
}

/* Another release may have moved what the structs of tensorflow.h say. */
static bool is_known_release(void) {
    return minor_version() >= FIRST_MINOR && minor_version() <= LAST_MINOR;
}

static bool check(void) {
    if (!is_known_release() && !getenv("XLADEV_TF_ANY_VERSION")) {
        say("no device for TensorFlow %s: this plugin supports " SUPPORTED
            "; XLADEV_TF_ANY_VERSION=1 tries all the same", version());
        return false;
    }
    for (size_t i = 0; i < sizeof WANTED / sizeof *WANTED; i++)
        if (!(*WANTED[i].slot = find(WANTED[i].name))) {
            say("no device for TensorFlow %s, which has no %s: this plugin supports " SUPPORTED,
                version(), WANTED[i].shown);
            return false;
        }
    return true;
}

bool is_supported(void) {
    static enum { UNKNOWN, YES, NO } answer;
    if (answer == UNKNOWN) answer = check() ? YES : NO;
    return answer == YES;
}
