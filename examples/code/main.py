"""What examples/15-workdir.yaml runs."""

import configparser
import os
import sys

settings = configparser.ConfigParser()
settings.read(sys.argv[1])
print(settings["hello"]["greeting"], "from rank", os.environ["SKYPILOT_NODE_RANK"])
