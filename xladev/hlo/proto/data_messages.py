"""Messages of `xla/xla_data.proto`: field numbers, names and kinds, one field a line.

Grammar of a table: see `schema.parse_message`. Numbers are those of jaxlib 0.12 (August 2026).
"""

from __future__ import annotations

from typing import Final

DATA_MESSAGES: Final[dict[str, str]] = {
    "ShapeProto": """
        2 element_type PrimitiveType
        3 dimensions int64*
        4 tuple_shapes ShapeProto*
        5 layout LayoutProto
        6 is_dynamic_dimension bool*
        ignored 1
    """,
    "LayoutProto": """
        1 minor_to_major int64*
        6 tiles TileProto*
        7 element_size_in_bits int64
        8 memory_space int64
        9 dim_level_types DimLevelType*
        10 physical_shape ShapeProto
        11 index_primitive_type PrimitiveType
        12 pointer_primitive_type PrimitiveType
        13 dim_unique bool*
        14 dim_ordered bool*
        15 dynamic_shape_metadata_prefix_bytes int64
        16 tail_padding_alignment_in_elements int64
        17 split_configs SplitConfigProto*
        ignored 2 3 4 5
    """,
    "TileProto": """
        1 dimensions int64*
    """,
    "SplitConfigProto": """
        1 dimension int64
        2 split_indices int64*
    """,
    "OpMetadata": """
        1 op_type string
        2 op_name string
        3 source_file string
        4 source_line int32
        5 profile_type int32*
        8 size_of_generated_code_in_bytes int64
        9 size_of_memory_working_set_in_bytes int64
        12 deduplicated_name string
        15 stack_frame_id int32
        16 scheduling_name string
        17 source_end_line int32
        18 source_column int32
        19 source_end_column int32
        20 metadata_payload Payload
        13 preserve_layout bool
        ignored 10 11 14
    """,
    "Payload": """
        1 value bytes?
        2 id int64?
    """,
    "LiteralProto": """
        1 shape ShapeProto
        2 preds raw-bool*
        3 u8s raw-bytes
        4 s32s raw-int32*
        5 s64s raw-int64*
        6 u32s raw-uint32*
        7 u64s raw-uint64*
        8 f32s raw-float*
        9 f64s raw-double*
        10 tuple_literals LiteralProto*
        11 f16s raw-bytes
        12 c64s raw-float*
        13 bf16s raw-bytes
        14 sparse_indices int64*
        15 s8s raw-bytes
        16 u16s raw-bytes
        17 s16s raw-bytes
        18 c128s raw-double*
        19 f8e5m2s raw-bytes
        20 f8e4m3fns raw-bytes
        21 s4s raw-bytes
        22 u4s raw-bytes
        23 f8e4m3b11fnuzs raw-bytes
        24 f8e5m2fnuzs raw-bytes
        25 f8e4m3fnuzs raw-bytes
        26 s2s raw-bytes
        27 u2s raw-bytes
        28 f8e4m3s raw-bytes
        29 f8e3m4s raw-bytes
        30 s1s raw-bytes
        31 u1s raw-bytes
        32 f4e2m1fns raw-bytes
        33 f8e8m0fnus raw-bytes
        34 dynamic_sizes int32*
        35 f6e3m2fns raw-bytes
        36 f6e2m3fns raw-bytes
    """,
    "Window": """
        1 dimensions WindowDimension*
    """,
    "WindowDimension": """
        1 size int64
        2 stride int64
        3 padding_low int64
        4 padding_high int64
        5 window_dilation int64
        6 base_dilation int64
        7 window_reversal bool
    """,
    "ConvolutionDimensionNumbers": """
        3 kernel_input_feature_dimension int64
        4 kernel_output_feature_dimension int64
        6 kernel_spatial_dimensions int64*
        7 input_batch_dimension int64
        8 input_feature_dimension int64
        9 output_batch_dimension int64
        10 output_feature_dimension int64
        11 input_spatial_dimensions int64*
        12 output_spatial_dimensions int64*
    """,
    "PaddingConfig": """
        1 dimensions PaddingConfig.PaddingConfigDimension*
    """,
    "PaddingConfig.PaddingConfigDimension": """
        1 edge_padding_low int64
        2 edge_padding_high int64
        3 interior_padding int64
    """,
    "DotDimensionNumbers": """
        1 lhs_contracting_dimensions int64*
        2 rhs_contracting_dimensions int64*
        3 lhs_batch_dimensions int64*
        4 rhs_batch_dimensions int64*
    """,
    "GatherDimensionNumbers": """
        1 offset_dims int64*
        2 collapsed_slice_dims int64*
        3 start_index_map int64*
        4 index_vector_dim int64
        5 operand_batching_dims int64*
        6 start_indices_batching_dims int64*
    """,
    "OpSharding": """
        1 type OpSharding.Type
        3 tile_assignment_dimensions int64*
        4 tile_assignment_devices int64*
        5 tuple_shardings OpSharding*
        6 replicate_on_last_tile_dim bool
        7 metadata OpMetadata*
        8 last_tile_dims OpSharding.Type*
        9 iota_reshape_dims int64*
        10 iota_transpose_perm int32*
        11 is_shard_group bool
        12 shard_group_id int64
        13 shard_group_type OpSharding.ShardGroupType
        14 named_sharding NamedShardingProto
        ignored 2
    """,
    "NamedShardingProto": """
        2 mesh MeshProto
        3 dim_shardings NamedShardingProto.DimensionSharding*
        4 replicated_axes AxisRefProto*
        5 unreduced_axes AxisRefProto*
        6 metadata OpMetadata*
        7 manual_axes AxisRefProto*
        8 reduction_op NamedShardingProto.ReductionOpProto
    """,
    "MeshProto": """
        1 axes MeshProto.MeshAxis*
        2 device_ids int64*
        3 iota_transform MeshProto.IotaTransform
    """,
    "MeshProto.MeshAxis": """
        1 name string
        2 size int64
    """,
    "MeshProto.IotaTransform": """
        1 reshape_dims int64*
        2 transpose_perm int64*
    """,
    "NamedShardingProto.DimensionSharding": """
        1 axes AxisRefProto*
        2 is_closed bool
    """,
    "AxisRefProto": """
        1 mesh_axis_index int64
        2 sub_axis_info AxisRefProto.SubAxis
    """,
    "AxisRefProto.SubAxis": """
        1 pre_size int64
        2 size int64
    """,
    "ScatterDimensionNumbers": """
        1 update_window_dims int64*
        2 inserted_window_dims int64*
        3 scatter_dims_to_operand_dims int64*
        4 index_vector_dim int64
        5 input_batching_dims int64*
        6 scatter_indices_batching_dims int64*
    """,
    "ReplicaGroup": """
        1 replica_ids int64*
    """,
    "PrecisionConfig": """
        1 operand_precision PrecisionConfig.Precision*
        2 algorithm PrecisionConfig.Algorithm
    """,
    "SourceTarget": """
        1 source int64
        2 target int64
    """,
    "TriangularSolveOptions": """
        1 left_side bool
        2 lower bool
        3 unit_diagonal bool
        4 transpose_a TriangularSolveOptions.Transpose
    """,
    "ParameterReplication": """
        1 replicated_at_leaf_buffers bool*
    """,
    "CholeskyOptions": """
        1 lower bool
    """,
    "FrontendAttributes": """
        1 map FrontendAttributes.MapEntry*
    """,
    "FrontendAttributes.MapEntry": """
        1 key string
        2 value string
    """,
    "OutputOperandAliasing": """
        1 output_shape_index int64*
        2 operand_index int64
        3 operand_shape_index int64*
    """,
    "StatisticsViz": """
        1 stat_index_to_visualize int64
        2 statistics Statistic*
    """,
    "Statistic": """
        1 stat_name string
        2 stat_val double
    """,
    "CollectiveDeviceListProto": """
        1 replica_groups ReplicaGroup*
        2 iota_replica_group_list IotaReplicaGroupListProto
    """,
    "OriginalValueProto": """
        1 elements OriginalValueElementProto*
        2 is_synthetic_call bool
        3 call_hierarchy string?
    """,
    "OriginalValueElementProto": """
        1 shape_index int64*
        2 original_array OriginalArrayProto
    """,
    "OriginalArrayProto": """
        1 instruction_name string
        2 shape_index int64*
    """,
    "RaggedDotDimensionNumbers": """
        1 dot_dimension_numbers DotDimensionNumbers
        2 lhs_ragged_dimensions int64*
        3 rhs_group_dimensions int64*
    """,
    "ResultAccuracy": """
        1 mode ResultAccuracy.Mode?
        2 tolerance ResultAccuracy.Tolerance
    """,
    "ResultAccuracy.Tolerance": """
        1 atol double
        2 rtol double
        3 ulps int64
    """,
    "IotaReplicaGroupListProto": """
        1 num_replica_groups int64
        2 num_devices_per_group int64
        3 iota_reshape_dims int64*
        4 iota_transpose_perm int32*
    """,
    "MeshAxesReplicaGroupListProto": """
        1 mesh MeshProto
        2 axes AxisRefProto*
    """,
    "SparsityConfig": """
        1 lhs SparsityConfig.TensorSparsityConfig
        2 rhs SparsityConfig.TensorSparsityConfig
    """,
    "SparsityConfig.TensorSparsityConfig": """
        1 num_non_zero int64
        2 block_size int64
        3 dimension int64
        4 stride int64
        5 idx int32
    """,
    "BlockScalingConfig": """
        1 lhs BlockScalingConfig.TensorBlockScalingConfig
        2 rhs BlockScalingConfig.TensorBlockScalingConfig
    """,
    "BlockScalingConfig.TensorBlockScalingConfig": """
        1 scale_idx int32
        2 zero_idx int32?
        3 strides int64*
        4 steps int64*
    """,
    "ShuffleMode": """
        1 rotate ShuffleMode.Rotate
    """,
    "ShuffleMode.Rotate": """
        1 shifts int64*
    """,
    "ProgramShapeProto": """
        1 parameters ShapeProto*
        2 result ShapeProto
        3 parameter_names string*
    """,
    "DeviceAssignmentProto": """
        1 replica_count int32
        2 computation_count int32
        3 computation_devices DeviceAssignmentProto.ComputationDevice*
    """,
    "DeviceAssignmentProto.ComputationDevice": """
        1 replica_device_ids int64*
    """,
}
