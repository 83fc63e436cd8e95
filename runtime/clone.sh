# Clones the repository of the task into the current directory. Part of entry.sh. repository.txt has four lines: URL; branch, tag,
# commit or HEAD; user name, or $NAME for a variable with it; name of the variable with the password.

# Sends the password only to the host of the URL, over TLS, and not after redirects. It is never an argument or in a file.
# eval is safe: validation accepts only names of variables.
fetch() (
  { IFS= read -r _ && IFS= read -r _ && IFS= read -r KUBECTL_SKY_LOGIN && IFS= read -r name; } < "$dir/repository.txt"
  eval "KUBECTL_SKY_PASSWORD=\${$name-}"
  case $KUBECTL_SKY_LOGIN in '$'*) eval "KUBECTL_SKY_LOGIN=\${${KUBECTL_SKY_LOGIN#?}-}" ;; esac
  host=${url#https://}
  if [ -n "$KUBECTL_SKY_PASSWORD" ] && [ "$host" != "$url" ]; then
    export KUBECTL_SKY_LOGIN KUBECTL_SKY_PASSWORD
    git -c credential.helper= -c http.followRedirects=initial -c "credential.https://${host%%/*}.helper=!f() { [ \"\$1\" != get ] || printf '%s\n' \"username=\$KUBECTL_SKY_LOGIN\" \"password=\$KUBECTL_SKY_PASSWORD\"; }; f" fetch -q "$@"
  else
    git fetch -q "$@"
  fi
)

command -v git > /dev/null || fail 1 "workdir.url needs git in the image: python:3.13 has it, python:3.13-slim does not"
{ IFS= read -r url && IFS= read -r ref; } < "$dir/repository.txt"
# git and ssh would read a leading - as an option. Other protocols, such as ext::, are not allowed below.
case "$url" in -* | *://-* | *@-* | *@*:-*) fail 1 "workdir.url: $url is not the URL of a git repository" ;; esac
case "$ref" in -*) fail 1 "workdir.ref: $ref is not a branch, tag or commit" ;; esac
export GIT_TERMINAL_PROMPT=0 GIT_ALLOW_PROTOCOL=https:http:ssh:git
export GIT_SSH_COMMAND="${GIT_SSH_COMMAND-ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new}"
git init -q . || fail 1 "cannot create a repository in $PWD"
# Most servers can send a single commit. From others, fetch all branches and tags.
if fetch --depth 1 -- "$url" "$ref" 2> /dev/null; then
  commit=FETCH_HEAD
elif fetch -- "$url" "+refs/heads/*:refs/remotes/origin/*" "+refs/tags/*:refs/tags/*" HEAD; then
  commit=$(git rev-parse -q --verify "refs/remotes/origin/$ref^{commit}" || git rev-parse -q --verify "$ref^{commit}" || echo FETCH_HEAD)
  [ "$ref" = HEAD ] || [ "$commit" != FETCH_HEAD ] || fail 1 "$url has no branch, tag or commit $ref"
else
  fail 1 "cannot fetch $url; a private repository needs the secret GIT_TOKEN, or keys by file_mounts: {~/.ssh: ~/.ssh}"
fi
git -c advice.detachedHead=false checkout -q -f "$commit" || fail 1 "cannot check out $ref of $url"
unset GIT_TERMINAL_PROMPT GIT_ALLOW_PROTOCOL
