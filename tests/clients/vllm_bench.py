"""`vllm bench serve` by its own module: the command `vllm` imports the engine too, which needs a GPU's libraries."""

import sys

from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser

parser = FlexibleArgumentParser(description=__doc__)
add_cli_args(parser)
main(parser.parse_args(sys.argv[1:]))
