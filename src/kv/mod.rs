//! KV memory: paged pools and prefix caches.
