# SPDX-License-Identifier: Apache-2.0
"""The lab's server under the name of vLLM's, so that its command line is vLLM's."""

from lab.server import main

if __name__ == "__main__":
    main()
