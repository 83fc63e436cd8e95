# Loads ~/.bashrc and conda before a script, like the interactive bash of SkyPilot.
# shellcheck disable=SC3045
unset BASH_ENV
PS1=${PS1-'$ '} # some ~/.bashrc return if it is not set
if [ -r ~/.bashrc ]; then
  # without the lines in Debian's ~/.bashrc that return unless bash is interactive
  eval "$(sed '/^case \$- in$/,/^esac$/d' ~/.bashrc 2> /dev/null)"
fi
if ! command -v conda > /dev/null || [ "$(type -t conda)" != function ]; then
  for kubectl_sky_conda in "${CONDA_EXE%/bin/conda}" ~/miniconda3 ~/anaconda3 ~/miniforge3 /opt/conda; do
    if [ -r "$kubectl_sky_conda/etc/profile.d/conda.sh" ]; then
      . "$kubectl_sky_conda/etc/profile.d/conda.sh" # lets `conda activate` work
      break
    fi
  done
  unset kubectl_sky_conda
fi
