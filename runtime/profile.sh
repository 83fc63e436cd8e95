# Read by bash before one of the user's scripts, which are written for SkyPilot's interactive shells:
# what setup adds to ~/.bashrc, such as conda's hook or a PATH, is there in run.
unset BASH_ENV
PS1=${PS1-'$ '} # some files end at once without it
if [ -r ~/.bashrc ]; then
  # others end unless bash is interactive, by these lines of Debian's
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
