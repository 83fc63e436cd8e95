"""Slurm's srun in a task: start a command on ranks, over the connections of the start barrier.

    srun  -- a socket in the pod -->  lead  -- a connection to each rank -->  serve

The script of the task calls `srun.py srun [OPTION...] COMMAND`. `srun.py lead` serves it on rank 0,
and `srun.py serve` starts its commands on another rank. Requires Python 3.6 and no packages.

KUBECTL_SKY_CHANNEL has the file descriptors of the connections that barrier.py has kept: on rank 0
to each other rank, and there to rank 0. All messages are lines of JSON; bytes are text in Latin-1.
Connections are read by a thread each, and sending waits for a slow receiver.
"""

import json
import os
import re
import selectors
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress

FOLDER = os.path.join(os.environ.get("KUBECTL_SKY_FILES", "/kubectl-sky"), "slurm")
SOCKET = os.path.join(FOLDER, "socket")
ENVIRONMENT = os.path.join(FOLDER, "environment")  # the variables before the script
TICK = 0.05  # seconds between looks at programs that may have exited
GRACE = 25.0  # seconds until the programs of a step that is stopped are killed
BLOCK = 1 << 16  # bytes
MAX_INPUT = 1 << 20  # bytes of stdin, which are sent with the command
PASSED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)

# Short options: those that matter here, and all that take a value.
NAMES = {
    "D": "chdir", "K": "kill-on-bad-exit", "N": "nodes", "e": "error", "l": "label", "n": "ntasks",
    "o": "output", "w": "nodelist",
}  # fmt: skip
VALUED = "ACDEGJLNSTWcdeimnopqrtwx"
# Long options that take no value; all others take one.
FLAGS = """
    container-mount-home container-remap-root container-writable exact exclusive kill-on-bad-exit
    label no-container-entrypoint no-container-mount-home no-container-remap-root no-kill
    overcommit overlap oversubscribe pty quiet quit-on-interrupt unbuffered verbose
""".split()


class Failure(Exception):
    """A message for the user of srun."""


def parse(words):
    """Return the options of a command line, and the command. Raises Failure."""
    options = {}
    words = list(words)
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word == "--":
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            takes_value = name not in FLAGS and not equals
        else:
            letter = word[1:2]
            name = NAMES.get(letter, letter)
            value = word[2:]
            takes_value = letter in VALUED and not value
        if takes_value:
            if not words:
                raise Failure("%s: expected a value" % word)
            value = words.pop(0)
        options[name] = value
    if not words:
        raise Failure("expected a command")
    return options, words


def number(options, name):
    """Return the number of an option: 2 of 2, 2-4 and a100:2; 0 if it is not given."""
    text = options.get(name, "0")
    match = re.match(r"(?:.*:)?(\d+)(?:-\d+)?$", text)
    if not match:
        raise Failure("--%s=%s: expected a number" % (name, text))
    return int(match.group(1))


def gpus_of(options, tasks):
    """Return the GPUs of its own that a step needs on a node for as many tasks."""
    if "overlap" in options:
        return 0  # it has those of other steps
    match = re.search(r"\bgpu(?::[^:,]+)??(?::(\d+))?(?=$|,)", options.get("gres", ""))
    if match:
        return int(match.group(1) or 1)
    return number(options, "gpus-per-task") * tasks


def run_thread(function, *arguments):
    thread = threading.Thread(target=function, args=arguments, daemon=True)
    thread.start()
    return thread


class Channel:
    """A connection that carries lines of JSON."""

    def __init__(self, connection):
        self.connection = connection
        self.lines = connection.makefile("rb")
        self.lock = threading.RLock()

    def send(self, **message):
        with self.lock, suppress(OSError):  # the thread that reads finds that it is closed
            self.connection.sendall(json.dumps(message).encode() + b"\n")

    def close(self):
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def __iter__(self):
        """Yield the messages until the connection is closed or lost."""
        with suppress(OSError, ValueError):
            for line in self.lines:
                yield json.loads(line.decode())


class Programs:
    """The programs of steps on this node; rank 0 gets what they print, and their exit codes."""

    def __init__(self, channel):
        self.channel = channel
        self.running = {}  # by step and task

    def serve(self):
        """Carry out the messages of rank 0; return whether it has said that the task has ended."""
        kind = ""
        for message in self.channel:
            kind = message["kind"]
            if kind == "start":
                self.start(message["step"], message["task"], message)
            elif kind == "signal":
                self.signal(message["step"], message["value"])
            else:
                break
        self.stop()
        return kind == "bye"

    def start(self, step, task, request):
        env = dict(os.environ, **request["changed"])
        env.update(request["variables"])
        try:
            with tempfile.TemporaryFile(dir=FOLDER) as file:
                file.write(request["stdin"].encode("latin-1"))
                file.seek(0)
                process = subprocess.Popen(
                    request["argv"], env=env, cwd=request["cwd"], stdin=file,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            reason = (env["SLURMD_NODENAME"], error.filename, error.strerror)
            text = "srun: error: %s: %s: %s\n" % reason
            self.channel.send(kind="output", step=step, task=task, stream=2, data=text)
            self.channel.send(kind="exit", step=step, task=task, code=127)
            return
        self.running[step, task] = process
        run_thread(self.follow, step, task, process)

    def follow(self, step, task, process):
        """Pass on what a program prints, then its exit code."""
        selector = selectors.DefaultSelector()
        selector.register(process.stdout, selectors.EVENT_READ, 1)
        selector.register(process.stderr, selectors.EVENT_READ, 2)
        while selector.get_map():
            has_exited = process.poll() is not None
            events = selector.select(0 if has_exited else TICK)
            if has_exited and not events:
                break  # a process that it left behind keeps its stdout open
            for key, _ in events:
                data = os.read(key.fd, BLOCK)
                if not data:
                    selector.unregister(key.fileobj)
                    continue
                text = data.decode("latin-1")
                self.channel.send(kind="output", step=step, task=task, stream=key.data, data=text)
        selector.close()

        code = process.wait()
        code = code if code >= 0 else 128 - code
        self.channel.send(kind="exit", step=step, task=task, code=code)
        del self.running[step, task]

    def signal(self, step, value):
        """Send a signal to a step, or to all if it is None; kill what does not stop."""
        for key, process in list(self.running.items()):
            if step in (None, key[0]) and process.returncode is None:
                with suppress(OSError):
                    os.killpg(process.pid, value)
        if value == signal.SIGTERM:
            timer = threading.Timer(GRACE, self.signal, (step, signal.SIGKILL))
            timer.daemon = True
            timer.start()

    def stop(self):
        """Stop all programs, wait for them, and close the connection."""
        self.signal(None, signal.SIGTERM)
        end = time.monotonic() + GRACE + 1
        while self.running and time.monotonic() < end:
            time.sleep(TICK)
        self.channel.close()


class Node:
    """A node of the task, as rank 0 sees it."""

    def __init__(self, name, channel, tasks, gpus):
        self.name = name
        self.names = (name, name.partition(".")[0])
        self.channel = channel
        self.free = tasks
        self.gpus = list(range(gpus))  # that no step has
        self.is_lost = False

    def lacks(self, options, tasks):
        """Report whether it has not all that a step needs for as many tasks."""
        gpus = gpus_of(options, tasks)
        return len(self.gpus) < gpus if gpus else self.free < tasks


class Step:
    """A call of srun."""

    def __init__(self, number, client, request):
        self.number = number
        self.client = client
        self.request = request
        self.options = request["options"]
        self.tasks = {}  # by rank: those that run there
        self.gpus = {}  # by rank: those that no other step has
        self.code = 0


class Lead:
    """Rank 0: gives the steps of srun to the nodes, and their output to srun."""

    def __init__(self, channels):
        names = os.environ["SLURM_JOB_NODELIST"].split(",")
        self.per_node = int(os.environ["SLURM_NTASKS_PER_NODE"])
        self.gpus = int(os.environ.get("SKYPILOT_NUM_GPUS_PER_NODE", "0"))
        self.nodes = []
        for name, channel in zip(names, channels):  # noqa: B905
            self.nodes.append(Node(name, channel, self.per_node, self.gpus))
        self.lock = threading.RLock()  # of all that follows, and of what nodes have free
        self.steps = {}  # by number, those that run
        self.waiting = []  # for GPUs or tasks of others
        self.count = 0

    def follow_client(self, client):
        """Carry out a call of srun, until it ends."""
        messages = iter(client)
        request = next(messages, None)
        if request is None:
            return
        with self.lock:
            step = Step(self.count, client, request)
            self.count += 1
            self.waiting.append(step)
            self.start_waiting()
        for message in messages:
            self.signal(step, message["value"])
        self.signal(step, signal.SIGTERM)  # srun has ended, perhaps before its tasks

    def follow_node(self, rank):
        """Pass on what programs of a node print; note those that have exited."""
        for message in self.nodes[rank].channel:
            step = self.steps[message.pop("step")]
            if message.pop("kind") == "output":
                step.client.send(kind="output", rank=rank, **message)
            else:
                self.finish_task(step, rank, **message)
        with self.lock:
            self.nodes[rank].is_lost = True
            steps = list(self.steps.values())
        for step in steps:
            for task in list(step.tasks.get(rank, ())):
                self.finish_task(step, rank, task, 1, "the node is lost")

    def signal(self, step, value):
        with self.lock:
            if step in self.waiting:
                self.waiting.remove(step)
                step.client.send(kind="end", code=128 + value)
            for rank, tasks in step.tasks.items():
                if tasks:
                    self.nodes[rank].channel.send(kind="signal", step=step.number, value=value)

    def finish_task(self, step, rank, task, code, reason=""):
        node = self.nodes[rank]
        if code:
            reason = reason or "exit code %d" % code
            text = "srun: error: %s: task %d: %s\n" % (node.name, task, reason)
            step.client.send(kind="output", rank=rank, task=task, stream=0, data=text)
            if step.options.get("kill-on-bad-exit", "0") != "0":
                self.signal(step, signal.SIGTERM)
        with self.lock:
            step.tasks[rank].remove(task)
            step.code = max(step.code, code)
            node.free += 1
            if any(step.tasks.values()):
                return
            del self.steps[step.number]
            for owner, gpus in step.gpus.items():
                self.nodes[owner].gpus = sorted(self.nodes[owner].gpus + gpus)
            self.start_waiting()
        step.client.send(kind="end", code=step.code)

    def start_waiting(self):
        """Start the steps for which there is room; the caller has the lock."""
        for step in list(self.waiting):
            try:
                placed = self.place(step.options)
                can_start = self.has_room(step.options, placed)
            except Failure as error:
                step.client.send(kind="error", text=str(error))
                self.waiting.remove(step)
                continue
            if can_start:
                self.waiting.remove(step)
                self.start(step, placed)

    def place(self, options):
        """Return the numbers of the tasks of each rank that a step uses. Raises Failure."""
        ranks = self.find(options.get("nodelist", "")) or list(range(len(self.nodes)))
        per_node = number(options, "ntasks-per-node")
        count = number(options, "nodes")
        tasks = number(options, "ntasks")
        if not (per_node or count or tasks or "nodelist" in options):
            tasks = int(os.environ["SLURM_NTASKS"])
        if per_node and tasks and not count:
            count = -(-tasks // per_node)
        count = count or min(tasks or len(ranks), len(ranks))
        tasks = tasks or count * (per_node or self.per_node)
        count = min(count, tasks)
        if count > len(ranks):
            raise Failure("%d nodes are requested, and %d can be used" % (count, len(ranks)))

        most = -(-tasks // count)
        if gpus_of(options, most) > self.gpus:
            raise Failure("more GPUs of a node are requested than the %d it has" % self.gpus)
        by_room = sorted(ranks, key=lambda rank: self.nodes[rank].lacks(options, most))
        placed = {}
        first = 0
        for index, rank in enumerate(sorted(by_room[:count])):
            size = tasks // count + (index < tasks % count)
            placed[rank] = list(range(first, first + size))
            first += size
        return placed

    def find(self, nodelist):
        """Return the ranks of nodes. Raises Failure."""
        ranks = []
        for name in filter(None, nodelist.split(",")):
            matches = [rank for rank, node in enumerate(self.nodes) if name in node.names]
            if not matches:
                raise Failure("node %s is not in SLURM_JOB_NODELIST" % name)
            ranks += matches
        return ranks

    def has_room(self, options, placed):
        """Report whether a step can start before others have ended. Raises Failure."""
        nodes = {rank: self.nodes[rank] for rank in placed}
        for node in nodes.values():
            if node.is_lost:
                raise Failure("node %s is lost" % node.name)
        if not self.steps or not ("exclusive" in options or gpus_of(options, 1)):
            return True
        return not any(node.lacks(options, len(placed[rank])) for rank, node in nodes.items())

    def start(self, step, placed):
        self.steps[step.number] = step
        step.tasks = {rank: set(tasks) for rank, tasks in placed.items()}
        counts = [len(tasks) for tasks in placed.values()]
        total = str(sum(counts))
        names = ",".join(self.nodes[rank].name for rank in placed)
        common = {
            "SLURM_STEP_ID": str(step.number), "SLURM_NNODES": str(len(placed)),
            "SLURM_NTASKS": total, "SLURM_NPROCS": total,
            "SLURM_NODELIST": names, "SLURM_STEP_NODELIST": names,
            "SLURM_TASKS_PER_NODE": ",".join(map(str, counts)),
            "SLURM_NTASKS_PER_NODE": str(max(counts)),
        }  # fmt: skip

        per_task = number(step.options, "gpus-per-task")
        for position, (rank, tasks) in enumerate(placed.items()):
            node = self.nodes[rank]
            node.free -= len(tasks)
            needed = gpus_of(step.options, len(tasks))
            gpus = node.gpus[:needed]
            step.gpus[rank] = gpus
            node.gpus = node.gpus[needed:]
            for local, task in enumerate(tasks):
                devices = gpus[local * per_task : (local + 1) * per_task] if per_task else gpus
                variables = dict(common, SLURM_PROCID=str(task), SLURM_LOCALID=str(local))
                variables.update(SLURM_NODEID=str(position), SLURMD_NODENAME=node.name)
                if devices:
                    variables["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, devices))
                message = dict(step.request, kind="start", step=step.number, task=task)
                node.channel.send(variables=variables, **message)


class Output:
    """Write what tasks print to srun's own stdout and stderr, or to files of --output."""

    def __init__(self, options):
        self.patterns = {1: options.get("output"), 2: options.get("error", options.get("output"))}
        self.has_labels = "label" in options
        self.unfinished = {}  # lines by rank, task and stream

    def write(self, rank, task, stream, data):
        if self.has_labels and stream:
            key = (rank, task, stream)
            lines = (self.unfinished.pop(key, "") + data).split("\n")
            self.unfinished[key] = lines.pop()
            data = "".join("%d: %s\n" % (task, line) for line in lines)
        if self.patterns.get(stream):
            with open(self.path(rank, task, stream), "ab") as file:
                file.write(data.encode("latin-1"))
        else:
            file = (sys.stdout if stream == 1 else sys.stderr).buffer
            file.write(data.encode("latin-1"))
            file.flush()

    def path(self, rank, task, stream):
        job = os.environ["SLURM_JOB_ID"]
        no_array = "4294967294"  # as Slurm writes it
        values = {
            "j": job, "A": os.environ.get("SLURM_ARRAY_JOB_ID", job),
            "a": os.environ.get("SLURM_ARRAY_TASK_ID", no_array), "t": str(task), "n": str(rank),
        }  # fmt: skip
        return re.sub("%([jAatn])", lambda match: values[match.group(1)], self.patterns[stream])

    def end(self):
        for key, line in list(self.unfinished.items()):
            if line:
                self.write(*key, data="\n")


def make_request(options, argv):
    """Return what rank 0 needs to know of a call of srun. Raises Failure."""
    if "SLURM_GPUS_PER_TASK" in os.environ and "gres" not in options:
        options.setdefault("gpus-per-task", os.environ["SLURM_GPUS_PER_TASK"])
    with open(ENVIRONMENT) as file:
        before = json.load(file)
    # Only what the script has changed: other variables may differ from node to node.
    changed = {name: text for name, text in os.environ.items() if before.get(name) != text}
    for name in ("PWD", "OLDPWD", "SHLVL", "_"):
        changed.pop(name, None)
    changed.update(re.findall(r"(\w+)=([^,]*)", options.get("export", "")))

    stdin = b""
    if not stat.S_ISCHR(os.fstat(0).st_mode):  # a terminal or /dev/null
        stdin = sys.stdin.buffer.read(MAX_INPUT + 1)
    if len(stdin) > MAX_INPUT:
        raise Failure("stdin has more than 1 MiB: let the command read a file")
    return {
        "options": options, "argv": argv, "cwd": options.get("chdir", os.getcwd()),
        "changed": changed, "stdin": stdin.decode("latin-1"),
    }  # fmt: skip


def srun(words):
    """Run a step; return the highest exit code of its tasks. Raises Failure."""
    options, argv = parse(words)
    request = make_request(options, argv)
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(SOCKET)
    channel = Channel(connection)
    channel.send(**request)
    for value in PASSED:
        signal.signal(value, lambda value, _: channel.send(value=int(value)))

    output = Output(options)
    for message in channel:
        kind = message.pop("kind")
        if kind == "end":
            output.end()
            return message["code"]
        if kind == "error":
            raise Failure(message["text"])
        output.write(**message)
    raise Failure("rank 0 has stopped")


def lead():
    """Serve srun on rank 0 until SIGTERM; then stop all programs."""
    with open(ENVIRONMENT, "w") as file:
        json.dump(dict(os.environ), file)
    ours, theirs = socket.socketpair()
    programs = Programs(Channel(theirs))
    others = os.environ.get("KUBECTL_SKY_CHANNEL", "").split()
    connections = [ours, *(socket.socket(fileno=int(descriptor)) for descriptor in others)]
    rank_0 = Lead([Channel(connection) for connection in connections])
    run_thread(programs.serve)
    threads = [run_thread(rank_0.follow_node, rank) for rank in range(len(connections))]

    server = socket.socket(socket.AF_UNIX)
    server.bind(SOCKET)
    server.listen(64)
    try:
        while True:
            run_thread(rank_0.follow_client, Channel(server.accept()[0]))
    finally:
        for node in rank_0.nodes:
            node.channel.send(kind="bye")
        for thread in threads:
            thread.join(GRACE)


def serve():
    """Start what rank 0 sends, until it says that the task has ended, or SIGTERM."""
    programs = Programs(Channel(socket.socket(fileno=int(os.environ["KUBECTL_SKY_CHANNEL"]))))
    print("kubectl-sky: rank 0 runs the script; its srun starts programs here", flush=True)
    try:
        is_end = programs.serve()
    except SystemExit:
        programs.stop()
        raise
    if not is_end:
        sys.exit("kubectl-sky: the connection to rank 0 is lost")


def end(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough
    sys.exit(143)


def main():
    if sys.argv[1] == "srun":
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as of other programs in a pipe
        try:
            sys.exit(srun(sys.argv[2:]))
        except (Failure, OSError) as error:
            sys.exit("srun: error: %s" % error)
    signal.signal(signal.SIGTERM, end)
    if sys.argv[1] == "lead":
        lead()
    else:
        serve()


if __name__ == "__main__":
    main()
