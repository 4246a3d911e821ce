/* The PJRT client, which TensorFlow makes of the API when it first needs one.
 *
 * It asks a registry of factories for one; ours is a std::function made by hand, which calls
 * TensorFlow's own function for clients of plugins.
 */
#include <string.h>

#include "plugin.h"

/* A std::function of libstdc++: what it calls, how it is copied, how it is called. */
typedef struct {
    void *functor[2];
    bool (*manage)(void *to, const void *from, int operation);
    void *(*invoke)(void *result, const void *functor, const void *options);
} StdFunction;

enum { CLONE = 2 };

static bool manage(void *to, const void *from, int operation) {
    if (operation == CLONE) memcpy(to, from, sizeof(void *[2]));
    return false;
}

enum { MAP_WORDS = 8 };

/* An empty absl::flat_hash_map: all zero, but that those of before begin with an address of bytes that
 * tell which slots are full, of which the first says here that there are no more. */
static void make_empty_map(void *words[MAP_WORDS]) {
    static const signed char end[32] = {-1};
    memset(words, 0, MAP_WORDS * sizeof *words);
    if (minor_version() < FIRST_OF_NEW_MAPS) words[0] = (void *)end;
}

/* absl::StatusOr<std::unique_ptr<xla::PjRtClient>> is returned at an address that is the first
 * argument; a shared_ptr is passed by its address. */
typedef void *GetCApiClient(
    void *result, size_t size, const char *device_type, const void *options, const void *store);

static void *make_client(void *result, const void *functor, const void *options) {
    (void)functor, (void)options;
    register_replay(); /* not before somebody asks for the device */
    register_allocators();
    void *no_options[MAP_WORDS], *no_store[2] = {0}; /* the second is a null shared_ptr */
    make_empty_map(no_options);
    const char *type = device_type();
    return ((GetCApiClient *)tensorflow.get_c_api_client)(
        result, strlen(type), type, no_options, no_store);
}

void register_client(void) {
    static const StdFunction factory = {{NULL, NULL}, manage, make_client};
    String type = string_of(device_type());
    void *(*registry)(void) = (void *(*)(void))tensorflow.client_factories;
    void (*add)(void *, const String *, const StdFunction *) =
        (void (*)(void *, const String *, const StdFunction *))tensorflow.register_client_factory;
    add(registry(), &type, &factory);
}
