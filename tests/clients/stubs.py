"""Lets the PyTorch that PyPI has for Linux be imported without the libraries of CUDA, for use of the processor alone.

PyTorch's libraries name those of CUDA, and the loader looks for each; but functions are bound when they are called. So libraries of the
same names will do, with functions that return an error. One must be real, since it is called while PyTorch is loaded: `libcudart`, of
the package `nvidia-cuda-runtime`.
"""

import re
import subprocess

OWN = ["libc10*.so", "libtorch*.so", "libshm.so", "libcaffe2_nvrtc.so"]
CUDA = re.compile(r"^(cu|nv|nccl)")


def said(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout


def symbols(kind, libraries):
    """Names of functions that libraries need (`--undefined-only`) or have (`--defined-only`)."""
    lines = [line for library in libraries for line in said("nm", "-D", kind, library).splitlines()]
    return {line.split()[-1].split("@")[0] for line in lines if line.split()}


def version_of(name, libraries):
    """The version under which symbols of the library are asked for, if there is one."""
    for library in libraries:
        asks = re.search(rf"File: {re.escape(name)} .*\n.*Name: (\S+)", said("readelf", "-W", "-V", library))
        if asks:
            return asks.group(1)
    return None


def stand_in_for_cuda(site):
    """Puts the libraries that the PyTorch in this site-packages needs beside its own."""
    folder = site / "torch" / "lib"
    own = sorted(path for pattern in OWN for path in folder.glob(pattern))
    runtime = next(site.glob("nvidia/**/libcudart.so.*")).resolve()
    needed = {name for library in own for name in re.findall(r"NEEDED.*\[(lib(?:cu[a-z]|nv|nccl)[^]]*)\]", said("readelf", "-d", library))}
    missing = symbols("--undefined-only", own) - symbols("--defined-only", [*own, runtime])
    source = folder / "stubs.c"
    source.write_text("".join(f"long {name}(void) {{ return 999; }}\n" for name in sorted(missing) if CUDA.match(name)))
    for name in sorted(needed):
        library = folder / name
        library.unlink(missing_ok=True)
        if name.startswith("libcudart"):
            library.symlink_to(runtime)
            continue
        command = ["gcc", "-w", "-shared", "-fPIC", f"-Wl,-soname,{name}", source, "-o", library]
        if version := version_of(name, own):
            script = folder / "stubs.map"
            script.write_text(f"{version} {{ global: *; }};\n")
            command.append(f"-Wl,--version-script={script}")
        said(*command)
