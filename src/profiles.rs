//! The built-in catalogue of models and GPUs.
