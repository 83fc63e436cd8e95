#!/bin/sh
# sshd.sh TYPE KEY: serves one ssh connection on stdin and stdout, to the owner of that public key.
# sshd.sh --check: prints the user to log in as, and then the public host key.
# Started through exec, by "kubectl sky dev ssh-config" and by the ProxyCommand that it writes.
set -u
files=${KUBECTL_SKY_FILES-/kubectl-sky}
dir=$files/ssh

fail() {
  echo "$1" >&2
  exit 1
}

program() { # NAME: prints its path; sshd may be outside of PATH and requires an absolute path
  PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin" command -v "$1" || fail "the image has no $1"
}

# Prints the variables of this shell for a login; eval gets only names of variables. sshd reads no value with a quote, a backslash or a second line.
variables() {
  env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p' | while read -r name; do
    case $name in _ | PWD | OLDPWD | SHLVL | TERM) continue ;; esac
    eval "value=\${$name-} known=\${$name+yes}"
    [ "$known" ] || continue # a line of a value
    case $value in *[\"\\]* | *"$newline"*) continue ;; esac
    printf ' "%s=%s"' "$name" "$value"
  done
}
newline='
'

daemon=$(program sshd) || exit 1
keygen=$(program ssh-keygen) || exit 1
user=$(id -un 2> /dev/null) || fail "sshd needs a name for user $(id -u) in /etc/passwd"
umask 077
# The volume is writable for every user of the container. Nobody else may replace these files.
[ "$(id -u)" -ne 0 ] || chmod +t "$files" 2> /dev/null
mkdir -p "$dir" || fail "cannot create $dir"
# shellcheck disable=SC3067
[ -O "$dir" ] && [ ! -L "$dir" ] || fail "$dir belongs to another user"
if [ ! -f "$dir/host_key" ]; then
  "$keygen" -q -t ed25519 -N '' -C '' -f "$dir/new.$$" || fail "cannot create the host key"
  ln "$dir/new.$$" "$dir/host_key" 2> /dev/null # fails if another connection was faster
  rm -f "$dir/new.$$" "$dir/new.$$.pub"
fi
if [ "$1" = --check ]; then
  echo "$user"
  exec "$keygen" -y -f "$dir/host_key"
fi
key="$1 $2"
grep -qxF -- "$key" "$dir/authorized_keys" 2> /dev/null || printf '%s\n' "$key" >> "$dir/authorized_keys"
cat > "$dir/config.$$" << EOF
HostKey $dir/host_key
AuthorizedKeysFile $dir/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AuthenticationMethods publickey
PrintLastLog no
LogLevel ERROR
ClientAliveInterval 60
ClientAliveCountMax 3
Subsystem sftp internal-sftp
SetEnv$(variables)
EOF
mv "$dir/config.$$" "$dir/config"
if [ "$(id -u)" -eq 0 ] && [ "$files" = /kubectl-sky ]; then # a container, not a node of the practice cluster
  mkdir -p /run/sshd 2> /dev/null # fails without privileges
fi
exec "$daemon" -i -e -f "$dir/config"
