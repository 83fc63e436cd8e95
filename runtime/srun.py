"""Slurm's srun in a task: start a command on ranks, over the connections of the start barrier.

Usage: srun.py srun [OPTION...] COMMAND, in run.sh. `srun.py lead` serves it on rank 0, and
`srun.py serve` starts its commands on another rank. Requires Python 3.6 and no packages.

KUBECTL_SKY_CHANNEL has the file descriptors of the connections that barrier.py has kept: on rank 0
to each other rank, and there to rank 0. All messages are lines of JSON; bytes are text in Latin-1.
"""

import json
import os
import re
import select
import signal
import socket
import stat
import subprocess
import sys
import time

FOLDER = os.path.join(os.environ.get("KUBECTL_SKY_FILES", "/kubectl-sky"), "slurm")
SOCKET = os.path.join(FOLDER, "socket")
TICK = 0.05  # seconds between looks at programs that may have exited
GRACE = 25.0  # seconds until the programs of a step that is stopped are killed
BLOCK = 1 << 16  # bytes
FULL = 1 << 20  # bytes that wait to be sent; then nothing more is read
PASSED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)

# Options by their short form: those that take a value, and others. Some have no effect here.
VALUED = {
    "A": "account", "C": "constraint", "D": "chdir", "E": "preserve-env", "G": "gpus",
    "J": "job-name", "L": "licenses", "N": "nodes", "S": "core-spec", "T": "threads", "W": "wait",
    "c": "cpus-per-task", "d": "dependency", "e": "error", "i": "input", "m": "distribution",
    "n": "ntasks", "o": "output", "p": "partition", "q": "qos", "r": "relative", "t": "time",
    "w": "nodelist", "x": "exclude",
}  # fmt: skip
PLAIN = {
    "K": "kill-on-bad-exit", "O": "overcommit", "Q": "quiet", "X": "disable-status",
    "Z": "no-allocate", "k": "no-kill", "l": "label", "s": "oversubscribe", "u": "unbuffered",
    "v": "verbose",
}  # fmt: skip
RENAMED = {"job-id": "jobid", "cpu_bind": "cpu-bind", "mem_bind": "mem-bind"}
# Those without a short form.
LONG_VALUED = """
    accel-bind auto-resume bcast comment container-env container-image container-mounts
    container-name container-workdir cpu-bind cpu-freq cpus-per-gpu epilog export gpu-bind
    gpu-freq gpus-per-node gpus-per-task gres gres-flags hint jobid mail-type mail-user mem
    mem-bind mem-per-cpu mem-per-gpu mpi network ntasks-per-core ntasks-per-gpu ntasks-per-node
    ntasks-per-socket open-mode prolog profile propagate reservation signal slurmd-debug
    switches task-epilog task-prolog threads-per-core tmp tres-per-task
""".split()
LONG_PLAIN = """
    contiguous exact exclusive overlap pty container-mount-home container-remap-root
    container-writable no-container-mount-home no-container-remap-root no-container-entrypoint
    spread-job use-min-nodes wait-all-nodes whole
""".split()
_PLACEHOLDER = re.compile(r"%\d*([a-zA-Z%])")  # of --output


class Failure(Exception):
    """A message for the user of srun."""


def parse(words):
    """Return the options of a command line, and the command."""
    options = {}
    words = list(words)
    while words and words[0].startswith("-") and words[0] != "-":
        word = words.pop(0)
        if word == "--":
            break
        name, equals, value = split(word, words)
        if name in LONG_VALUED or name in VALUED.values():
            if not equals:
                if not words:
                    raise Failure("--%s: expected a value" % name)
                value = words.pop(0)
            options[name] = value
        elif name in LONG_PLAIN or name in PLAIN.values():
            options[name] = value if equals else "1"
        else:
            raise Failure("unknown option %s" % word)
    if not words:
        raise Failure("expected a command")
    return options, words


def split(word, others):
    """Return the name of an option, whether it has a value, and the value."""
    if word.startswith("--"):
        name, equals, value = word[2:].partition("=")
        name = RENAMED.get(name, name)
        return name, equals, value
    letter = word[1]
    value = word[2:]
    name = VALUED.get(letter) or PLAIN.get(letter) or ""
    if letter in PLAIN and value.isalpha():  # such as -lu
        others.insert(0, "-" + value)
        value = ""
    given = bool(value)
    value = value[1:] if value.startswith("=") else value
    return name, given, value


def number(options, name, default=None):
    """Return the number of an option; of a range such as 2-4 the first one."""
    text = options.get(name)
    if text is None:
        return default
    found = re.match(r"\d+$|\d+(?=-\d+$)", text)
    if not found:
        raise Failure("--%s=%s: expected a number" % (name, text))
    return int(found.group())


def gpus_of(options):
    """Return the GPUs of each node of a step, and those of each task; None if not given."""
    node = number(options, "gpus-per-node")
    found = re.search(r"gpu(?::[^:,]+)?:(\d+)|gpu(?=$|,|:)", options.get("gres", ""))
    if found:
        node = int(found.group(1) or 1)
    task = options.get("gpus-per-task")
    each = None if task is None else int(task.rpartition(":")[2])
    return node, each


class Peer:
    """A connection that carries lines of JSON."""

    def __init__(self, connection):
        self.connection = connection
        self.connection.setblocking(False)
        self.ready = False
        self.closed = False
        self.received = b""
        self.unsent = b""

    def fileno(self):
        return self.connection.fileno()

    def send(self, **message):
        self.unsent += json.dumps(message).encode() + b"\n"
        self.flush()

    def flush(self):
        try:
            while self.unsent and not self.closed:
                self.unsent = self.unsent[self.connection.send(self.unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self.unsent = b""  # receive finds that it was closed

    def receive(self):
        """Return the messages that have come; `closed` says whether it was the end."""
        try:
            data = self.connection.recv(BLOCK)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        self.closed = self.closed or not data
        lines = (self.received + data).split(b"\n")
        self.received = lines.pop()
        return [json.loads(line.decode()) for line in lines]


class Input:
    """What a task has not yet read of its input; it reports each block that was written."""

    def __init__(self, pipe, report, step, task):
        os.set_blocking(pipe.fileno(), False)
        self.pipe = pipe
        self.unsent = b""
        self.closed = False
        self.taken = {"kind": "taken", "step": step, "task": task}
        self.report = report

    def fileno(self):
        return self.pipe.fileno()

    def add(self, data):
        if data and not self.closed:
            self.unsent += data
            self.flush()
        elif not self.closed:
            self.close()

    def close(self):
        self.closed = True
        self.unsent = b""
        self.pipe.close()

    def flush(self):
        try:
            self.unsent = self.unsent[os.write(self.fileno(), self.unsent) :]
        except BlockingIOError:
            return
        except OSError:  # it reads no more
            self.close()
        if not self.unsent:
            self.report(**self.taken)


class Programs:
    """The programs of steps on this node; `report` gets what they print, and their exit codes."""

    def __init__(self, report):
        self.report = report
        self.running = {}  # by step and task
        self.pipes = {}  # by file descriptor: step, task and stream
        self.inputs = {}  # by step and task

    def start(self, message):
        step = message["step"]
        removed = message["removed"]
        base = {name: text for name, text in os.environ.items() if name not in removed}
        stdin = subprocess.PIPE if message["takes_stdin"] else subprocess.DEVNULL
        for task, variables in message["tasks"].items():
            env = dict(base, **message["changed"])
            env.update(variables)
            try:
                process = subprocess.Popen(
                    message["argv"], env=env, cwd=message["cwd"], stdin=stdin,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                reason = (env["SLURMD_NODENAME"], error.filename, error.strerror)
                text = "srun: error: %s: %s: %s\n" % reason
                self.report(kind="output", step=step, task=task, stream=2, data=text)
                self.report(kind="exit", step=step, task=task, code=127)
                continue
            self.running[step, task] = process
            if process.stdin:
                self.inputs[step, task] = Input(process.stdin, self.report, step, task)
            for stream, pipe in ((1, process.stdout), (2, process.stderr)):
                os.set_blocking(pipe.fileno(), False)
                self.pipes[pipe.fileno()] = (step, task, stream)

    def read(self, descriptor):
        """Pass on what a program has printed; return whether there may be more."""
        step, task, stream = self.pipes[descriptor]
        try:
            data = os.read(descriptor, BLOCK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if data:
            self.report(
                kind="output", step=step, task=task, stream=stream, data=data.decode("latin-1")
            )
        else:
            del self.pipes[descriptor]
        return bool(data)

    def write(self, step, data):
        """Give input to all tasks of a step; no data is its end."""
        for key, task_input in self.inputs.items():
            if key[0] == step:
                task_input.add(data.encode("latin-1"))

    def signal(self, step, value):
        for key, process in self.running.items():
            if step in (None, key[0]):
                try:
                    os.killpg(process.pid, value)
                except OSError:
                    pass

    def reap(self):
        """Report the programs that have exited, after all that they have printed."""
        for key, process in list(self.running.items()):
            if process.poll() is None:
                continue
            for descriptor, (step, task, _) in list(self.pipes.items()):
                if (step, task) == key:
                    while self.read(descriptor):
                        pass
                    self.pipes.pop(descriptor, None)  # a process that it left behind keeps it
            del self.running[key]
            self.inputs.pop(key, None)
            code = process.returncode
            code = code if code >= 0 else 128 - code
            self.report(kind="exit", step=key[0], task=key[1], code=code)

    def stop(self):
        """Stop all programs."""
        self.signal(None, signal.SIGTERM)
        end = time.monotonic() + GRACE
        while self.running and time.monotonic() < end:
            for descriptor in list(self.pipes):
                self.read(descriptor)
            self.reap()
            time.sleep(TICK)
        self.signal(None, signal.SIGKILL)

    def handle(self, message):
        """Carry out a message of rank 0."""
        kind = message["kind"]
        if kind == "start":
            self.start(message)
        elif kind == "input":
            self.write(message["step"], message["data"])
        elif kind == "signal":
            self.signal(message["step"], message["value"])


def wait(reading, writing, timeout):
    """Return what can be read; write what can be written."""
    poll = select.poll()
    items = {}
    for item in reading:
        descriptor = item if isinstance(item, int) else item.fileno()
        items[descriptor] = item
        poll.register(descriptor, select.POLLIN)
    unsent = {peer.fileno(): peer for peer in writing if peer.unsent and not peer.closed}
    for descriptor in unsent:
        poll.register(descriptor, select.POLLOUT | (select.POLLIN if descriptor in items else 0))
    ready = []
    for descriptor, events in poll.poll(timeout * 1000):
        if events & ~select.POLLIN and descriptor in unsent:
            unsent[descriptor].flush()
        if events & ~select.POLLOUT and descriptor in items:
            ready.append(items[descriptor])
    return ready


class Node:
    """A node of the task, as rank 0 sees it."""

    def __init__(self, name, address, send, tasks, gpus):
        self.names = {name, name.partition(".")[0], address}
        self.name = name
        self.send = send
        self.peer = None
        self.free = tasks
        self.gpus = list(range(gpus))

    @property
    def ready(self):
        return self.peer is None or self.peer.ready

    @property
    def lost(self):
        return self.peer is not None and self.peer.closed


class Step:
    """A call of srun."""

    def __init__(self, client, number, request):
        self.client = client
        self.number = number
        self.request = request
        self.options = request["options"]
        self.tasks = {}  # by rank of the node: the tasks that run there
        self.gpus = {}  # by rank of the node: the GPUs that the step has there
        self.code = 0
        self.kill_at = None
        self.reading = set()  # the tasks that have not yet read the last block of input


class Lead:
    """Rank 0: carries out the calls of srun, and those of their tasks that run here."""

    def __init__(self):
        names = os.environ["SLURM_JOB_NODELIST"].split(",")
        addresses = os.environ["SKYPILOT_NODE_IPS"].split()
        channel = os.environ.get("KUBECTL_SKY_CHANNEL", "").split()
        tasks = int(os.environ.get("SLURM_NTASKS_PER_NODE", "1"))
        gpus = int(os.environ.get("SKYPILOT_NUM_GPUS_PER_NODE", "0"))
        self.programs = Programs(lambda **message: self.handle_task(0, message))
        self.nodes = [Node(names[0], addresses[0], self.start_here, tasks, gpus)]
        for name, address, descriptor in zip(names[1:], addresses[1:], channel):  # noqa: B905
            peer = Peer(socket.socket(fileno=int(descriptor)))
            node = Node(name, address, peer.send, tasks, gpus)
            node.peer = peer
            self.nodes.append(node)
        self.clients = []
        self.steps = {}
        self.waiting = []
        self.count = 0
        self.stopping = False

    def start_here(self, **message):
        self.programs.handle(message)

    def run(self):
        signal.signal(signal.SIGTERM, self.stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        server = socket.socket(socket.AF_UNIX)
        server.bind(SOCKET)
        server.listen(64)
        while not self.stopping:
            peers = [node.peer for node in self.nodes if node.peer and not node.lost]
            is_full = any(len(client.unsent) > FULL for client in self.clients)
            output = [] if is_full else [*peers, *self.programs.pipes]
            timeout = TICK if self.programs.running or is_full else 1.0
            writing = [*self.clients, *peers, *self.programs.inputs.values()]
            for ready in wait([server, *self.clients, *output], writing, timeout):
                if ready is server:
                    self.clients.append(Peer(server.accept()[0]))
                elif isinstance(ready, int):
                    if ready in self.programs.pipes:
                        self.programs.read(ready)
                elif ready in self.clients:
                    self.read_client(ready)
                else:
                    self.read_node(ready)
            self.programs.reap()
            self.waiting = [step for step in self.waiting if not self.try_start(step)]
            self.kill_late()
        self.end()

    def stop(self, *_):
        self.stopping = True

    def end(self):
        """Tell the other nodes that the task has ended."""
        self.programs.stop()
        peers = [node.peer for node in self.nodes if node.peer]
        for peer in peers:
            peer.send(kind="bye")
        end = time.monotonic() + GRACE
        while any(peer.unsent and not peer.closed for peer in peers) and time.monotonic() < end:
            wait([], [peer for peer in peers if not peer.closed], TICK)

    def read_node(self, peer):
        rank = next(rank for rank, node in enumerate(self.nodes) if node.peer is peer)
        for message in peer.receive():
            self.handle_task(rank, message)
        if peer.closed:
            for step in list(self.steps.values()):
                for task in sorted(step.tasks.get(rank, ())):
                    self.finish_task(step, rank, task, 1, "the node is lost")

    def read_client(self, client):
        for message in client.receive():
            self.handle_client(client, message)
        if client.closed:
            self.clients.remove(client)
            self.waiting = [step for step in self.waiting if step.client is not client]
            for step in self.steps.values():
                if step.client is client:
                    self.signal(step, signal.SIGTERM)

    def handle_client(self, client, message):
        step = next((step for step in self.steps.values() if step.client is client), None)
        if message["kind"] == "run":
            self.waiting.append(Step(client, self.count, message))
            self.count += 1
        elif step and message["kind"] == "signal":
            self.signal(step, message["value"])
        elif step:
            step.reading = set().union(*step.tasks.values())
            self.send(step, kind="input", data=message["data"])
        elif message["kind"] == "signal":  # it waits for nodes or GPUs
            client.send(kind="end", code=128 + message["value"])

    def send(self, step, **message):
        for rank, tasks in step.tasks.items():
            if tasks:
                self.nodes[rank].send(step=step.number, **message)

    def signal(self, step, value):
        if value in (signal.SIGTERM, signal.SIGINT) and step.kill_at is None:
            step.kill_at = time.monotonic() + GRACE
        self.send(step, kind="signal", value=value)

    def kill_late(self):
        for step in self.steps.values():
            if step.kill_at and time.monotonic() > step.kill_at:
                self.send(step, kind="signal", value=signal.SIGKILL)

    def handle_task(self, rank, message):
        kind = message["kind"]
        if kind == "ready":
            self.nodes[rank].peer.ready = True
            return
        step = self.steps.get(message["step"])
        if step is None:
            return
        if kind == "output":
            del message["step"]
            step.client.send(rank=rank, **message)
        elif kind == "taken":
            self.note_reading(step, message["task"])
        else:
            self.finish_task(step, rank, message["task"], message["code"], "")

    def note_reading(self, step, task):
        """Ask for more input once all tasks have read it, or have ended."""
        if task in step.reading:
            step.reading.remove(task)
            if not step.reading:
                step.client.send(kind="taken")

    def finish_task(self, step, rank, task, code, reason):
        if task not in step.tasks[rank]:
            return
        step.tasks[rank].remove(task)
        self.note_reading(step, task)
        step.code = max(step.code, code)
        self.nodes[rank].free += 1
        if code:
            reason = reason or "exit code %d" % code
            text = "srun: error: %s: task %s: %s\n" % (self.nodes[rank].name, task, reason)
            step.client.send(kind="output", rank=rank, task=task, stream=0, data=text)
            if step.options.get("kill-on-bad-exit", "0") != "0":
                self.signal(step, signal.SIGTERM)
        if not any(step.tasks.values()):
            for owner, gpus in step.gpus.items():
                self.nodes[owner].gpus = sorted(self.nodes[owner].gpus + gpus)
            del self.steps[step.number]
            step.client.send(kind="end", code=step.code)

    def choose(self, step):
        """Return the ranks of a step and its number of tasks. Raises Failure."""
        options = step.options
        excluded = self.find(options.get("exclude", ""))
        named = self.find(options.get("nodelist", ""))
        ranks = named or [rank for rank in range(len(self.nodes)) if rank not in excluded]
        ranks = ranks[number(options, "relative", 0) :]
        each = number(options, "ntasks-per-node")
        count = number(options, "nodes")
        tasks = number(options, "ntasks")
        env = step.request["env"]
        if tasks is None and count is None and not named and each is None:
            tasks = int(env.get("SLURM_NTASKS", len(ranks)))
            count = min(len(ranks), tasks)
        if count is None and tasks is None:
            count = len(ranks)
        elif count is None:
            count = -(-tasks // each) if each else min(tasks, len(ranks))
        if tasks is None:
            tasks = count * (each or int(env.get("SLURM_NTASKS_PER_NODE", "1")))
        count = min(count, tasks)
        if not 0 < count <= len(ranks):
            raise Failure("%d nodes are requested, and %d can be used" % (count, len(ranks)))
        if count < len(ranks):  # those with room first
            most = -(-tasks // count)
            ranks = sorted(ranks, key=lambda rank: (self.nodes[rank].free < most, rank))
            ranks = sorted(ranks[:count])
        return ranks, tasks

    def find(self, names):
        """Return the ranks of nodes, by name or address. Raises Failure."""
        ranks = []
        for name in filter(None, names.split(",")):
            matches = [rank for rank, node in enumerate(self.nodes) if name in node.names]
            if not matches:
                raise Failure("node %s is not in SLURM_JOB_NODELIST" % name)
            ranks += matches
        return ranks

    def try_start(self, step):
        """Start a step, unless it has to wait for nodes or GPUs; return whether it is decided."""
        try:
            ranks, tasks = self.choose(step)
            placed = place(ranks, tasks, step.options.get("distribution", "block"))
            needs, per_task = self.needed_gpus(step, placed)
            lost = [self.nodes[rank].name for rank in ranks if self.nodes[rank].lost]
            if lost:
                raise Failure("node %s is lost" % lost[0])
        except (Failure, ValueError) as error:
            step.client.send(kind="error", text=str(error))
            return True
        if self.has_room(step, placed, needs):
            self.start(step, placed, needs, per_task)
            return True
        return False

    def needed_gpus(self, step, placed):
        """Return the GPUs that a step needs of each rank, and those of each task."""
        per_node, per_task = gpus_of(step.options)
        env = step.request["env"]
        if per_task is None and per_node is None and "SLURM_GPUS_PER_TASK" in env:
            per_task = int(env["SLURM_GPUS_PER_TASK"].rpartition(":")[2])
        needs = {rank: per_node or (per_task or 0) * len(tasks) for rank, tasks in placed.items()}
        most = max(needs.values())
        total = int(os.environ.get("SKYPILOT_NUM_GPUS_PER_NODE", "0"))
        if most > total:
            raise Failure("%d GPUs of a node are requested, and it has %d" % (most, total))
        return needs, per_task

    def has_room(self, step, placed, needs):
        """Report whether the nodes of a step are ready, and have what it does not share."""
        if not all(self.nodes[rank].ready for rank in placed):
            return False
        if "overlap" in step.options:
            return True
        if any(need > len(self.nodes[rank].gpus) for rank, need in needs.items()):
            return False
        is_exclusive = "exclusive" in step.options or "exact" in step.options
        is_full = any(self.nodes[rank].free < len(tasks) for rank, tasks in placed.items())
        return not (is_exclusive and is_full and self.steps)

    def start(self, step, placed, needs, per_task):
        self.steps[step.number] = step
        step.client.send(kind="started")
        overlaps = "overlap" in step.options
        common = self.variables(step, placed)
        step.tasks = {rank: {str(task) for task in numbers} for rank, numbers in placed.items()}
        for position, (rank, numbers) in enumerate(placed.items()):
            node = self.nodes[rank]
            node.free -= len(numbers)
            gpus = node.gpus[: needs[rank]]
            if needs[rank] and not overlaps:
                step.gpus[rank] = gpus
                node.gpus = node.gpus[needs[rank] :]
            tasks = {}
            for local, task in enumerate(numbers):
                own = gpus[local * per_task : (local + 1) * per_task] if per_task else gpus
                tasks[str(task)] = dict(
                    common,
                    SLURM_PROCID=str(task),
                    SLURM_LOCALID=str(local),
                    SLURM_NODEID=str(position),
                    SLURMD_NODENAME=node.name,
                )
                if own:
                    tasks[str(task)]["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, own))
            request = step.request
            node.send(
                kind="start", step=step.number, argv=request["argv"], cwd=request["cwd"],
                changed=request["changed"], removed=request["removed"], tasks=tasks,
                takes_stdin=request["takes_stdin"],
            )  # fmt: skip

    def variables(self, step, placed):
        """Return the variables that all tasks of a step have."""
        counts = [len(numbers) for numbers in placed.values()]
        total = str(sum(counts))
        names = ",".join(self.nodes[rank].name for rank in placed)
        variables = {
            "SLURM_STEP_ID": str(step.number), "SLURM_STEPID": str(step.number),
            "SLURM_NTASKS": total, "SLURM_NPROCS": total, "SLURM_STEP_NUM_TASKS": total,
            "SLURM_NNODES": str(len(placed)), "SLURM_STEP_NUM_NODES": str(len(placed)),
            "SLURM_STEP_NODELIST": names, "SLURM_NODELIST": names,
            "SLURM_TASKS_PER_NODE": ",".join(map(str, counts)),
            "SLURM_STEP_TASKS_PER_NODE": ",".join(map(str, counts)),
            "SLURM_NTASKS_PER_NODE": str(max(counts)),
        }  # fmt: skip
        for option in ("cpus-per-task", "gpus-per-task"):
            if option in step.options:
                name = "SLURM_" + option.upper().replace("-", "_")
                variables[name] = step.options[option]
        return variables


def place(ranks, tasks, distribution):
    """Return the numbers of the tasks of each rank, in blocks or in turn."""
    if distribution.startswith("cyclic"):
        return {rank: list(range(index, tasks, len(ranks))) for index, rank in enumerate(ranks)}
    placed = {}
    first = 0
    for index, rank in enumerate(ranks):
        size = tasks // len(ranks) + (index < tasks % len(ranks))
        placed[rank] = list(range(first, first + size))
        first += size
    return placed


def serve():
    """Another rank: start what rank 0 sends, until it says that the task has ended."""
    peer = Peer(socket.socket(fileno=int(os.environ["KUBECTL_SKY_CHANNEL"])))
    programs = Programs(peer.send)
    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    say("rank 0 runs the script; its srun starts programs here, and gets their output")
    peer.send(kind="ready")
    while not stopping:
        pipes = [] if len(peer.unsent) > FULL else list(programs.pipes)
        timeout = TICK if programs.running else 1.0
        for ready in wait([peer, *pipes], [peer, *programs.inputs.values()], timeout):
            if ready is not peer:
                programs.read(ready)
                continue
            for message in peer.receive():
                if message["kind"] == "bye":
                    programs.stop()
                    return 0
                programs.handle(message)
        programs.reap()
        if peer.closed:
            programs.stop()
            say("the connection to rank 0 is lost")
            return 1
    programs.stop()
    return 143


def say(text):
    print("kubectl-sky: " + text, flush=True)


class Output:
    """Where srun writes what tasks print: its own stdout and stderr, or files of --output."""

    def __init__(self, options):
        self.patterns = {1: options.get("output"), 2: options.get("error", options.get("output"))}
        self.label = "label" in options
        self.files = {}
        self.lines = {}

    def write(self, rank, task, stream, data):
        if self.label and stream:
            key = (task, stream)
            lines = (self.lines.pop(key, "") + data).split("\n")
            self.lines[key] = lines.pop()
            data = "".join("%s: %s\n" % (task, line) for line in lines)
        file = self.file(rank, task, stream)
        file.write(data.encode("latin-1"))
        file.flush()

    def end(self):
        for (task, stream), line in self.lines.items():
            if line:
                self.file(0, task, stream).write(("%s: %s\n" % (task, line)).encode("latin-1"))
        for file in self.files.values():
            file.close()

    def file(self, rank, task, stream):
        pattern = self.patterns.get(stream)
        if not pattern or pattern == "none":
            return (sys.stdout if stream == 1 else sys.stderr).buffer
        environ = os.environ
        job = environ["SLURM_JOB_ID"]
        values = {
            "j": job, "J": job, "A": job, "t": task, "n": str(rank), "%": "%",
            "N": environ["SLURM_JOB_NODELIST"].split(",")[rank].partition(".")[0],
            "a": environ.get("SLURM_ARRAY_TASK_ID", "0"), "x": environ["SLURM_JOB_NAME"],
            "u": environ["SLURM_JOB_USER"], "s": "0",
        }  # fmt: skip
        path = _PLACEHOLDER.sub(lambda found: values.get(found.group(1), found.group()), pattern)
        if path not in self.files:
            self.files[path] = open(path, "ab")
        return self.files[path]


class Call:
    """One srun: sends the command to rank 0, and passes on what its tasks print."""

    def __init__(self, words):
        self.options, argv = parse(words)
        self.output = Output(self.options)
        self.has_input = self.options.get("input", "all") == "all" and not is_device(0)
        self.is_asked = False  # for input
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(SOCKET)
        except OSError as error:
            raise Failure("rank 0 does not answer: %s" % error.strerror) from None
        self.peer = Peer(connection)
        changed, removed = self.environment()
        self.peer.send(
            kind="run",
            options=self.options,
            argv=argv,
            cwd=self.options.get("chdir", os.getcwd()),
            env={name: text for name, text in os.environ.items() if name.startswith("SLURM_")},
            changed=changed,
            removed=removed,
            takes_stdin=self.has_input,
        )
        for number in PASSED:
            signal.signal(number, lambda value, _: self.peer.send(kind="signal", value=int(value)))

    def environment(self):
        """Return the variables that the script has changed, and the names of those it removed.

        Other variables may differ from node to node.
        """
        with open(os.path.join(FOLDER, "environment")) as file:
            before = json.load(file)
        changed = {name: text for name, text in os.environ.items() if before.get(name) != text}
        for item in self.options.get("export", "ALL").split(","):
            name, equals, text = item.partition("=")
            if equals:
                changed[name] = text
        removed = [name for name in before if name not in os.environ]
        for name in ("PWD", "OLDPWD", "SHLVL", "_"):
            changed.pop(name, None)
        return changed, removed

    def run(self):
        """Return the exit code: the highest of all tasks."""
        while True:
            reads = self.is_asked and self.has_input
            reading = [self.peer, 0] if reads else [self.peer]
            ready = wait(reading, [self.peer], 1.0)
            if 0 in ready:
                data = os.read(0, BLOCK)
                self.has_input = bool(data)
                self.is_asked = False
                self.peer.send(kind="input", data=data.decode("latin-1"))
            for message in self.peer.receive() if self.peer in ready else ():
                if message["kind"] == "end":
                    self.output.end()
                    return message["code"]
                self.handle(message)
            if self.peer.closed:
                raise Failure("rank 0 has stopped")

    def handle(self, message):
        kind = message.pop("kind")
        if kind == "error":
            raise Failure(message["text"])
        if kind in ("started", "taken"):
            self.is_asked = True
        else:
            self.output.write(**message)


def is_device(descriptor):
    """Report whether there is nothing to read: a terminal, or /dev/null."""
    try:
        return stat.S_ISCHR(os.fstat(descriptor).st_mode)
    except OSError:
        return True


def main():
    if sys.argv[1] == "lead":
        with open(os.path.join(FOLDER, "environment"), "w") as file:
            json.dump(dict(os.environ), file)
        Lead().run()
    elif sys.argv[1] == "serve":
        sys.exit(serve())
    else:
        try:
            sys.exit(Call(sys.argv[2:]).run())
        except Failure as error:
            sys.exit("srun: error: %s" % error)
        except BrokenPipeError:
            os._exit(141)


if __name__ == "__main__":
    main()
