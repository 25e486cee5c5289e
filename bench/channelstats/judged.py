"""How right To do is, on constructed conversations of four styles, see
`support.channelstats.judged`:

    PYTHONPATH=tests python -m bench.channelstats.judged
"""

import argparse
import sys

from support.channelstats.judged import STYLES, judge


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.channelstats.judged")
    parser.add_argument("--seeds", type=int, default=10, metavar="N", help="(%(default)s)")
    parser.add_argument("--show", action="store_true", help="what is wrong and what is missing")
    options = parser.parse_args()
    print(f"{'style':9}{'listed':>8}{'precision':>11}{'first ten':>11}{'recall':>8}")
    for style in STYLES:
        of = judge(style, range(options.seeds))
        shares = f"{of.precision:11.2f}{of.precision_of_first:11.2f}{of.recall:8.2f}"
        print(f"{style:9}{len(of.listed):8}{shares}")
        if options.show:
            for name, texts in (("wrong", of.wrong), ("missing", of.missing)):
                for text, number in texts.most_common(12):
                    print(f"    {name} {number:3} {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
