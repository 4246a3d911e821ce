/* The argument structs of the PJRT C API 0.114, in the order of its function table.
 *
 * The layout is an interface: names, types and order follow OpenXLA's public header (see NOTICE).
 * Every struct begins with its size and a list of extensions; fields that a later minor version
 * added stand last, and are written only if `struct_size` says that they are there.
 */
#ifndef XLADEV_PJRT_ARGS_H
#define XLADEV_PJRT_ARGS_H

#include "pjrt_types.h"

#define ARGS(name, ...)                        \
    typedef struct PJRT_##name##_Args {        \
        size_t struct_size;                    \
        PJRT_Extension_Base *extension_start;  \
        __VA_ARGS__                            \
    } PJRT_##name##_Args;

ARGS(Error_Destroy, PJRT_Error *error;)
ARGS(Error_Message, const PJRT_Error *error; const char *message; size_t message_size;)
ARGS(Error_GetCode, const PJRT_Error *error; PJRT_Error_Code code;)
ARGS(Plugin_Initialize)
ARGS(Plugin_Attributes, const PJRT_NamedValue *attributes; size_t num_attributes;)
ARGS(Event_Destroy, PJRT_Event *event;)
ARGS(Event_IsReady, PJRT_Event *event; bool is_ready;)
ARGS(Event_Error, PJRT_Event *event;)
ARGS(Event_Await, PJRT_Event *event;)
ARGS(Event_OnReady, PJRT_Event *event; PJRT_Event_OnReadyCallback callback; void *user_arg;)
ARGS(Client_Create, const PJRT_NamedValue *create_options; size_t num_options;
    PJRT_KeyValueGetCallback kv_get_callback; void *kv_get_user_arg;
    PJRT_KeyValuePutCallback kv_put_callback; void *kv_put_user_arg; PJRT_Client *client;
    PJRT_KeyValueTryGetCallback kv_try_get_callback; void *kv_try_get_user_arg;)
ARGS(Client_Destroy, PJRT_Client *client;)
ARGS(Client_PlatformName, PJRT_Client *client; const char *platform_name;
    size_t platform_name_size;)
ARGS(Client_ProcessIndex, PJRT_Client *client; int process_index;)
ARGS(Client_PlatformVersion, PJRT_Client *client; const char *platform_version;
    size_t platform_version_size;)
ARGS(Client_Devices, PJRT_Client *client; PJRT_Device *const *devices; size_t num_devices;)
ARGS(Client_AddressableDevices, PJRT_Client *client; PJRT_Device *const *addressable_devices;
    size_t num_addressable_devices;)
ARGS(Client_LookupDevice, PJRT_Client *client; int id; PJRT_Device *device;)
ARGS(Client_LookupAddressableDevice, PJRT_Client *client; int local_hardware_id;
    PJRT_Device *addressable_device;)
ARGS(Client_AddressableMemories, PJRT_Client *client; PJRT_Memory *const *addressable_memories;
    size_t num_addressable_memories;)
ARGS(Client_Compile, PJRT_Client *client; const PJRT_Program *program;
    const char *compile_options; size_t compile_options_size; PJRT_LoadedExecutable *executable;)
ARGS(Client_DefaultDeviceAssignment, PJRT_Client *client; int num_replicas; int num_partitions;
    size_t default_assignment_size; int *default_assignment;)
ARGS(Client_BufferFromHostBuffer, PJRT_Client *client; const void *data; PJRT_Buffer_Type type;
    const int64_t *dims; size_t num_dims; const int64_t *byte_strides; size_t num_byte_strides;
    PJRT_HostBufferSemantics host_buffer_semantics; PJRT_Device *device; PJRT_Memory *memory;
    PJRT_Buffer_MemoryLayout *device_layout; PJRT_Event *done_with_host_buffer;
    PJRT_Buffer *buffer;)
ARGS(DeviceDescription_Id, PJRT_DeviceDescription *device_description; int id;)
ARGS(DeviceDescription_ProcessIndex, PJRT_DeviceDescription *device_description;
    int process_index;)
ARGS(DeviceDescription_Attributes, PJRT_DeviceDescription *device_description;
    size_t num_attributes; const PJRT_NamedValue *attributes;)
ARGS(DeviceDescription_Kind, PJRT_DeviceDescription *device_description; const char *device_kind;
    size_t device_kind_size;)
ARGS(DeviceDescription_DebugString, PJRT_DeviceDescription *device_description;
    const char *debug_string; size_t debug_string_size;)
ARGS(DeviceDescription_ToString, PJRT_DeviceDescription *device_description;
    const char *to_string; size_t to_string_size;)
ARGS(Device_GetDescription, PJRT_Device *device; PJRT_DeviceDescription *device_description;)
ARGS(Device_IsAddressable, PJRT_Device *device; bool is_addressable;)
ARGS(Device_LocalHardwareId, PJRT_Device *device; int local_hardware_id;)
ARGS(Device_AddressableMemories, PJRT_Device *device; PJRT_Memory *const *memories;
    size_t num_memories;)
ARGS(Device_DefaultMemory, PJRT_Device *device; PJRT_Memory *memory;)
ARGS(Device_MemoryStats, PJRT_Device *device; int64_t bytes_in_use; int64_t peak_bytes_in_use;
    bool peak_bytes_in_use_is_set; int64_t num_allocs; bool num_allocs_is_set;
    int64_t largest_alloc_size; bool largest_alloc_size_is_set; int64_t bytes_limit;
    bool bytes_limit_is_set; int64_t bytes_reserved; bool bytes_reserved_is_set;
    int64_t peak_bytes_reserved; bool peak_bytes_reserved_is_set; int64_t bytes_reservable_limit;
    bool bytes_reservable_limit_is_set; int64_t largest_free_block_bytes;
    bool largest_free_block_bytes_is_set; int64_t pool_bytes; bool pool_bytes_is_set;
    int64_t peak_pool_bytes; bool peak_pool_bytes_is_set; int64_t peak_allocated_bytes;
    bool peak_allocated_bytes_is_set;)
ARGS(Memory_Id, PJRT_Memory *memory; int id;)
ARGS(Memory_Kind, PJRT_Memory *memory; const char *kind; size_t kind_size;)
ARGS(Memory_DebugString, PJRT_Memory *memory; const char *debug_string; size_t debug_string_size;)
ARGS(Memory_ToString, PJRT_Memory *memory; const char *to_string; size_t to_string_size;)
ARGS(Memory_AddressableByDevices, PJRT_Memory *memory; PJRT_Device *const *devices;
    size_t num_devices;)
ARGS(Executable_Destroy, PJRT_Executable *executable;)
ARGS(Executable_Name, PJRT_Executable *executable; const char *executable_name;
    size_t executable_name_size;)
ARGS(Executable_NumReplicas, PJRT_Executable *executable; size_t num_replicas;)
ARGS(Executable_NumPartitions, PJRT_Executable *executable; size_t num_partitions;)
ARGS(Executable_NumOutputs, PJRT_Executable *executable; size_t num_outputs;)
ARGS(Executable_SizeOfGeneratedCodeInBytes, PJRT_Executable *executable; int64_t size_in_bytes;)
ARGS(Executable_GetCostAnalysis, PJRT_Executable *executable; size_t num_properties;
    const PJRT_NamedValue *properties;)
ARGS(Executable_OutputMemoryKinds, PJRT_Executable *executable; size_t num_outputs;
    const char *const *memory_kinds; const size_t *memory_kind_sizes;)
ARGS(Executable_OptimizedProgram, PJRT_Executable *executable; PJRT_Program *program;)
ARGS(Executable_Serialize, const PJRT_Executable *executable; const char *serialized_bytes;
    size_t serialized_bytes_size; PJRT_SerializedExecutable *serialized_executable;
    void (*serialized_executable_deleter)(PJRT_SerializedExecutable *exec);)
ARGS(LoadedExecutable_Destroy, PJRT_LoadedExecutable *executable;)
ARGS(LoadedExecutable_GetExecutable, PJRT_LoadedExecutable *loaded_executable;
    PJRT_Executable *executable;)
ARGS(LoadedExecutable_AddressableDevices, PJRT_LoadedExecutable *executable;
    PJRT_Device *const *addressable_devices; size_t num_addressable_devices;)
ARGS(LoadedExecutable_Delete, PJRT_LoadedExecutable *executable;)
ARGS(LoadedExecutable_IsDeleted, PJRT_LoadedExecutable *executable; bool is_deleted;)
ARGS(LoadedExecutable_Execute, PJRT_LoadedExecutable *executable; PJRT_ExecuteOptions *options;
    PJRT_Buffer *const *const *argument_lists; size_t num_devices; size_t num_args;
    PJRT_Buffer **const *output_lists; PJRT_Event **device_complete_events;
    PJRT_Device *execute_device;)
ARGS(Executable_DeserializeAndLoad, PJRT_Client *client; const char *serialized_executable;
    size_t serialized_executable_size; PJRT_LoadedExecutable *loaded_executable;
    const char *overridden_serialized_compile_options;
    size_t overridden_serialized_compile_options_size;)
ARGS(LoadedExecutable_Fingerprint, PJRT_LoadedExecutable *executable;
    const char *executable_fingerprint; size_t executable_fingerprint_size;)
ARGS(Buffer_Destroy, PJRT_Buffer *buffer;)
ARGS(Buffer_ElementType, PJRT_Buffer *buffer; PJRT_Buffer_Type type;)
ARGS(Buffer_Dimensions, PJRT_Buffer *buffer; const int64_t *dims; size_t num_dims;)
ARGS(Buffer_UnpaddedDimensions, PJRT_Buffer *buffer; const int64_t *unpadded_dims;
    size_t num_dims;)
ARGS(Buffer_DynamicDimensionIndices, PJRT_Buffer *buffer; const size_t *dynamic_dim_indices;
    size_t num_dynamic_dims;)
ARGS(Buffer_GetMemoryLayout, PJRT_Buffer *buffer; PJRT_Buffer_MemoryLayout layout;)
ARGS(Buffer_OnDeviceSizeInBytes, PJRT_Buffer *buffer; size_t on_device_size_in_bytes;)
ARGS(Buffer_Device, PJRT_Buffer *buffer; PJRT_Device *device;)
ARGS(Buffer_Memory, PJRT_Buffer *buffer; PJRT_Memory *memory;)
ARGS(Buffer_Delete, PJRT_Buffer *buffer;)
ARGS(Buffer_IsDeleted, PJRT_Buffer *buffer; bool is_deleted;)
ARGS(Buffer_CopyToDevice, PJRT_Buffer *buffer; PJRT_Device *dst_device; PJRT_Buffer *dst_buffer;)
ARGS(Buffer_ToHostBuffer, PJRT_Buffer *src; PJRT_Buffer_MemoryLayout *host_layout; void *dst;
    size_t dst_size; PJRT_Event *event;)
ARGS(Buffer_IsOnCpu, PJRT_Buffer *buffer; bool is_on_cpu;)
ARGS(Buffer_ReadyEvent, PJRT_Buffer *buffer; PJRT_Event *event;)
ARGS(Buffer_UnsafePointer, PJRT_Buffer *buffer; uintptr_t buffer_pointer;)
ARGS(Buffer_IncreaseExternalReferenceCount, PJRT_Buffer *buffer;)
ARGS(Buffer_DecreaseExternalReferenceCount, PJRT_Buffer *buffer;)
ARGS(Buffer_OpaqueDeviceMemoryDataPointer, PJRT_Buffer *buffer; void *device_memory_ptr;)
ARGS(TopologyDescription_Create, const char *topology_name; size_t topology_name_size;
    const PJRT_NamedValue *create_options; size_t num_options; PJRT_TopologyDescription *topology;)
ARGS(TopologyDescription_Destroy, PJRT_TopologyDescription *topology;)
ARGS(TopologyDescription_PlatformName, const PJRT_TopologyDescription *topology;
    const char *platform_name; size_t platform_name_size;)
ARGS(TopologyDescription_PlatformVersion, PJRT_TopologyDescription *topology;
    const char *platform_version; size_t platform_version_size;)
ARGS(TopologyDescription_GetDeviceDescriptions, const PJRT_TopologyDescription *topology;
    PJRT_DeviceDescription *const *descriptions; size_t num_descriptions;)
ARGS(TopologyDescription_Serialize, PJRT_TopologyDescription *topology;
    const char *serialized_bytes; size_t serialized_bytes_size;
    PJRT_SerializedTopology *serialized_topology;
    void (*serialized_topology_deleter)(PJRT_SerializedTopology *serialized_topology);)
ARGS(TopologyDescription_Attributes, PJRT_TopologyDescription *topology;
    const PJRT_NamedValue *attributes; size_t num_attributes;)
ARGS(Compile, const PJRT_TopologyDescription *topology; const PJRT_Program *program;
    const char *compile_options; size_t compile_options_size; PJRT_Client *client;
    PJRT_Executable *executable;)
ARGS(Executable_OutputElementTypes, PJRT_Executable *executable; PJRT_Buffer_Type *output_types;
    size_t num_output_types;)
ARGS(Executable_OutputDimensions, PJRT_Executable *executable; size_t num_outputs;
    const int64_t *dims; const size_t *dim_sizes;)
ARGS(Buffer_CopyToMemory, PJRT_Buffer *buffer; PJRT_Memory *dst_memory; PJRT_Buffer *dst_buffer;)
ARGS(Client_CreateViewOfDeviceBuffer, PJRT_Client *client; void *device_buffer_ptr;
    const int64_t *dims; size_t num_dims; PJRT_Buffer_Type element_type;
    PJRT_Buffer_MemoryLayout *layout; PJRT_Device *device;
    void (*on_delete_callback)(void *device_buffer_ptr, void *user_arg);
    void *on_delete_callback_arg; intptr_t stream; PJRT_Buffer *buffer; PJRT_Memory *memory;)
ARGS(Executable_Fingerprint, PJRT_Executable *executable; const char *executable_fingerprint;
    size_t executable_fingerprint_size;)
ARGS(Client_TopologyDescription, PJRT_Client *client; PJRT_TopologyDescription *topology;)
ARGS(Executable_GetCompiledMemoryStats, PJRT_Executable *executable;
    int64_t generated_code_size_in_bytes; int64_t argument_size_in_bytes;
    int64_t output_size_in_bytes; int64_t alias_size_in_bytes; int64_t temp_size_in_bytes;
    int64_t host_generated_code_size_in_bytes; int64_t host_argument_size_in_bytes;
    int64_t host_output_size_in_bytes; int64_t host_alias_size_in_bytes;
    int64_t host_temp_size_in_bytes; int64_t peak_memory_in_bytes; int64_t total_size_in_bytes;
    int64_t total_allocation_bytes; int64_t indefinite_allocations;
    int64_t peak_unpadded_heap_bytes;)
ARGS(Memory_Kind_Id, PJRT_Memory *memory; int kind_id;)
ARGS(ExecuteContext_Create, PJRT_ExecuteContext *context;)
ARGS(ExecuteContext_Destroy, PJRT_ExecuteContext *context;)
ARGS(Buffer_CopyRawToHost, PJRT_Buffer *buffer; void *dst; int64_t offset; int64_t transfer_size;
    PJRT_Event *event;)
ARGS(AsyncHostToDeviceTransferManager_Destroy,
    PJRT_AsyncHostToDeviceTransferManager *transfer_manager;)
ARGS(AsyncHostToDeviceTransferManager_TransferData,
    PJRT_AsyncHostToDeviceTransferManager *transfer_manager; int buffer_index; const void *data;
    int64_t offset; int64_t transfer_size; bool is_last_transfer;
    PJRT_Event *done_with_h2d_transfer;)
ARGS(Client_CreateBuffersForAsyncHostToDevice, PJRT_Client *client; PJRT_ShapeSpec *shape_specs;
    size_t num_shape_specs; PJRT_Buffer_MemoryLayout **device_layouts; size_t num_device_layouts;
    PJRT_Memory *memory; PJRT_AsyncHostToDeviceTransferManager *transfer_manager;)
ARGS(AsyncHostToDeviceTransferManager_RetrieveBuffer,
    PJRT_AsyncHostToDeviceTransferManager *transfer_manager; int buffer_index;
    PJRT_Buffer *buffer_out;)
ARGS(AsyncHostToDeviceTransferManager_Device,
    PJRT_AsyncHostToDeviceTransferManager *transfer_manager; PJRT_Device *device_out;)
ARGS(AsyncHostToDeviceTransferManager_BufferCount,
    PJRT_AsyncHostToDeviceTransferManager *transfer_manager; size_t buffer_count;)
ARGS(AsyncHostToDeviceTransferManager_BufferSize,
    PJRT_AsyncHostToDeviceTransferManager *transfer_manager; int buffer_index; size_t buffer_size;)
ARGS(AsyncHostToDeviceTransferManager_SetBufferError,
    PJRT_AsyncHostToDeviceTransferManager *transfer_manager; int buffer_index;
    PJRT_Error_Code error_code; const char *error_message; size_t error_message_size;)
ARGS(AsyncHostToDeviceTransferManager_AddMetadata,
    PJRT_AsyncHostToDeviceTransferManager *transfer_manager;
    const PJRT_NamedValue *transfer_metadata; size_t num_metadata;)
ARGS(Client_CreateUninitializedBuffer, PJRT_Client *client; const int64_t *shape_dims;
    size_t shape_num_dims; PJRT_Buffer_Type shape_element_type;
    PJRT_Buffer_MemoryLayout *shape_layout; PJRT_Device *device; PJRT_Memory *memory;
    PJRT_Buffer *buffer;)
ARGS(Client_UpdateGlobalProcessInfo, PJRT_Client *client; PJRT_ProcessInfo *process_infos;
    size_t num_process_infos;)
ARGS(LoadedExecutable_GetDeviceAssignment, PJRT_LoadedExecutable *executable;
    const char *serialized_bytes; size_t serialized_bytes_size;
    PJRT_DeviceAssignmentSerialized *serialized_device_assignment;
    void (*serialized_device_assignment_deleter)(PJRT_DeviceAssignmentSerialized *da);)
ARGS(Client_CreateErrorBuffer, PJRT_Client *client; PJRT_Error_Code error_code;
    const char *error_message; size_t error_message_size; const int64_t *shape_dims;
    size_t shape_num_dims; PJRT_Buffer_Type shape_element_type;
    PJRT_Buffer_MemoryLayout *shape_layout; PJRT_Memory *memory; PJRT_Buffer *buffer;)
ARGS(Device_CreateAsyncTrackingEvent, PJRT_Device *device; const char *description;
    size_t description_size; PJRT_AsyncTrackingEvent *event;)
ARGS(AsyncTrackingEvent_Destroy, PJRT_AsyncTrackingEvent *event;)
ARGS(Executable_GetCompileOptions, PJRT_Executable *executable; const char *serialized_bytes;
    size_t serialized_bytes_size; PJRT_SerializedCompileOptions *serialized_compile_options;
    void (*serialized_compile_options_deleter)(PJRT_SerializedCompileOptions *options);)
ARGS(Event_Create, PJRT_Event *event;)
ARGS(Event_Set, PJRT_Event *event; PJRT_Error_Code error_code; const char *error_message;
    size_t error_message_size;)
ARGS(Device_GetAttributes, PJRT_Device *device; const PJRT_NamedValue *attributes;
    size_t num_attributes; void *device_attributes; void (*attributes_deleter)(void *);)
ARGS(Client_Load, PJRT_Client *client; PJRT_Executable *executable; const char *compile_options;
    size_t compile_options_size; PJRT_LoadedExecutable *loaded_executable;)
ARGS(LoadedExecutable_AddressableDeviceLogicalIds, PJRT_LoadedExecutable *executable;
    const PJRT_LogicalDeviceIds *addressable_device_logical_ids;
    size_t num_addressable_device_logical_ids;)
ARGS(Buffer_Bitcast, PJRT_Buffer *buffer; PJRT_Buffer_Type element_type; const int64_t *dims;
    size_t num_dims; PJRT_Buffer_MemoryLayout *device_layout; PJRT_Buffer *out_buffer;)
ARGS(Error_ForEachPayload, const PJRT_Error *error; void *visitor; void *user_arg;)
ARGS(TopologyDescription_Fingerprint, PJRT_TopologyDescription *topology; uint64_t fingerprint;)
ARGS(Executable_ParameterMemoryKinds, PJRT_Executable *executable; size_t num_parameters;
    const char *const *memory_kinds; const size_t *memory_kind_sizes;)
ARGS(Device_ClearMemoryStats, PJRT_Device *device;)

#undef ARGS

#endif
