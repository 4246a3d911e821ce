"""Every xladev platform as a TensorFlow device, by the plugin xladev-tensorflow."""
