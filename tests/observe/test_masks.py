"""Masked texts: known values, and what looks like a secret, in many spellings; names stay."""

import time

import pytest

from kubectl_sky.observe.masks import Mask, of_lines, smells

SECRET = "s99SECRET"
SPELLINGS = r"""
export HF_TOKEN=X
export HF_TOKEN="X y"
export HF_TOKEN='X'
HF_TOKEN=X python train.py
env WANDB_API_KEY=X python train.py
declare -x SECRET_NAME=X
PGPASSWORD=X psql
MY_CREDS=X
export SIGNING_CERT=X
SAS='sv=2020&sig=X'
jwt=X
PIN=X
accessKey: X
TOKEN := X
if token == "X"
password -> X
token => X
<password>X</password>
password: correct horse X
password=ab,cd;X
password="ab'cdX"
export TOKEN=$(echo X | base64 -d)
echo ${TOKEN:-X}
echo "token: X"; exit 3
echo 'password = X'
echo token is X
{"password": "X", "rate": 3}
{"api_key":"X"}
curl -d "{\"password\": \"X\"}" https://a
os.environ["OPENAI_API_KEY"] = "X"
os.environ.setdefault("TOKEN", "X")
curl -H 'Authorization: token X' https://a
curl -H "Authorization: Bearer X" https://a
curl -H "PRIVATE-TOKEN: X" https://a
curl --header "X-Vault: X" https://a
curl -u bob:X https://a
curl --user=bob:X https://a
Authorization: Basic X
Bearer X
Cookie: session=X
Set-Cookie: a=1; X
curl https://bob:X@host/x
git clone https://X@github.com/a/b
git clone https://oauth2:X@gitlab.com/a/b.git
mongodb+srv://u:X@h/db
redis://:X@host:6379
amqp://user:pa@ssX@host
curl "https://a/b?sig=X&x=2"
curl "https://a/b?x=2&access_token=X"
curl "https://a/b?X-Amz-Signature=X"
curl https://hooks.slack.com/services/T/B/X
curl https://discord.com/api/webhooks/1/X
curl https://corp.webhook.office.com/webhookb2/X
python train.py --password X
python train.py --password=X --epochs 3
python train.py --hf-token "X"
python train.py --hf_token X
python train.py --api-key 'X'
python train.py --secret X
mysql -uroot -pX db
sshpass -pX ssh a@b
redis-cli -a X ping
docker login -u a -p X reg.io
echo X | docker login -u a --password-stdin
docker login --password-stdin <<< "X"
echo "X" > ~/.netrc
machine a.b login bob password X
wandb login X
huggingface-cli login --token X
git config --global github.token X
npm config set //registry.npmjs.org/:_authToken X
aws configure set aws_secret_access_key X
docker run -e TOKEN=X image
docker build --build-arg TOKEN=X .
kubectl create secret generic a --from-literal=x=X
AccountName=a;AccountKey=X;EndpointSuffix=b
Server=x;Password=X
openssl enc -k X
curl -su bob:X https://a
curl -U bob:X -x p https://a
curl -H "Authorization: Token token=\"X\"" https://a
kubectl create secret generic a --from-literal=x='X'
pip install --index-url https://X:@pypi.example.com/simple a
conda config --add channels https://conda.anaconda.org/t/X12/chan
jdbc:oracle:thin:scott/X@//h:1521/x
sqlcmd -S h -U sa -P X
smbclient //h/s -U bob%X
lftp -u bob,X sftp://h
mc alias set minio http://h:9000 AKID X
htpasswd -bc /f bob X
useradd -p X bob
7z x a.7z -pX
ngrok authtoken X
ENV API_TOKEN X
requests.get(u, auth=('bob', 'X'))
-Password (ConvertTo-SecureString 'X' -AsPlainText)
{name: API_TOKEN, value: X}
[{"name":"API_TOKEN","value":"X"}]
""".strip().splitlines()
TOKENS = (
    "ghp_SECRETxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "github_pat_SECRETxxxxxxxxxxxx",
    "glpat-SECRETxxxxxxx",
    "hf_s9SECRETabcdefghijklmnopqrst",
    "sk-proj-s9SECRETabcdefghijklmn",
    "AKIASECRETEXAMPLE",
    "xoxb-12-SECRETabc",
    "AIzaSECRETabcdef",
    "eyJhbGciOiJI.eyJzSECRET.abcSECRET",
    "wJalrXUtnFEMIK7MDENGbPxRfiCYSECRETKEYab",
)
BLOCKS = (
    "-----BEGIN RSA PRIVATE KEY-----\nSECRET\nSECRET\n-----END RSA PRIVATE KEY-----",
    "password: |\n  SECRET\n  SECRET\nrate: 1",
    "cat > ~/.netrc <<EOF\nmachine a login b\nSECRET\nEOF\n",
    "- name: API_TOKEN\n  value: SECRET\n",
    "kind: Secret\nstringData:\n  a: SECRET\n  b: SECRET\ntype: Opaque\n",
    "docker login --password-stdin <<'END'\nSECRET\nEND\n",
)
PLAIN = """
python train.py --max-tokens 512 --tokenizer bert-base-uncased
pip install hf_transfer tokenizers
git clone https://github.com/a/b.git
git checkout 3f786850e387550fdab836ed7e6dc881de23001b
docker pull python@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
KeyError: 'loss'
export HF_TOKEN=$HF_TOKEN
export HF_TOKEN="${HF_TOKEN}"
secret "train-ab12cd34" not found
0/3 nodes are available: 3 Insufficient cpu
Failed to pull image "reg/a:1": not found
torchrun --nnodes=2 --master_addr=$MASTER_ADDR --rdzv_id=job-1
curl https://example.com/a/b?x=1
pip install -U git+https://github.com/a/b.git
nuclei -u https://example.com
{name: EPOCHS, value: 10}
""".strip().splitlines()


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_mask_secret_in_script_is_replaced(spelling: str) -> None:
    text = Mask()(spelling.replace("X", SECRET, 1) if "X-" not in spelling else _last(spelling))
    assert SECRET not in text and "REDACTED" in text


def _last(spelling: str) -> str:
    before, _, after = spelling.rpartition("X")
    return f"{before}{SECRET}{after}"


@pytest.mark.parametrize("token", TOKENS)
def test_mask_token_of_known_form_is_replaced(token: str) -> None:
    assert Mask()(f"got {token} from it") == "got REDACTED from it"


@pytest.mark.parametrize("block", BLOCKS)
def test_mask_secret_of_several_lines_is_replaced(block: str) -> None:
    assert "SECRET" not in Mask()(block)


@pytest.mark.parametrize("text", PLAIN)
def test_mask_text_without_secret_stays(text: str) -> None:
    assert Mask()(text) == text


def test_mask_value_is_replaced_where_it_is_cut_or_broken() -> None:
    value = "correct horse\nbattery staple"
    mask = Mask([("values of Secrets", value)])
    assert mask(f"login {value} failed") == "login REDACTED failed"
    assert of_lines(["login with correct horse", "battery"], mask)[0] == "login with REDACTED"
    assert mask("horse\nbattery staple is wrong") == "REDACTED is wrong"
    assert mask("cannot log in with correct ho…") == "cannot log in with REDACTED"
    assert mask.counts == {"values of Secrets": 1}


def test_mask_short_value_is_replaced_as_word_only() -> None:
    assert Mask([("envs", "7")])("exit 7, not 17") == "exit REDACTED, not 17"


@pytest.mark.parametrize("name", ["DB_PASS", "PGPASS", "apiKey", "HF_TOKEN", "SAS", "x-api-key"])
def test_smells_name_of_secret(name: str) -> None:
    assert smells(name)


@pytest.mark.parametrize("name", ["EPOCHS", "tokenizer", "KeyError", "PATH", "spec", "monitor"])
def test_smells_other_name_does_not(name: str) -> None:
    assert not smells(name)


@pytest.mark.parametrize(
    "text",
    ["a", " ", ":", "key=", "key: ", "://a:", "login ", "echo ", "$(", '\\"', "<<X\n", "eyJ"],
)
def test_mask_hostile_text_takes_linear_time(text: str) -> None:
    mask = Mask([("envs", "abcdefghijkl" * 50)])
    start = time.process_time()
    mask(text * (60_000 // len(text)))
    assert time.process_time() - start < 3
