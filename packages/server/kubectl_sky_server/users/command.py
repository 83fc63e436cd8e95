"""`kubectl sky users`."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from kubectl_sky.cli import commands, complete, options, output, tasks
from kubectl_sky.errors import UserError

if TYPE_CHECKING:
    from kubectl_sky.tasks.deletion import Remainder
    from kubectl_sky_server.users.action import Added, Change, Removal
    from kubectl_sky_server.users.model import User


@commands.group("users")
def command() -> None:
    """Give users a namespace with rights and a quota. For cluster admins."""


@command.command(
    "add",
    examples=[
        "users add alice@example.com --cpus 32 --gpus A100:8 --storage 500",
        "users add trainer --service-account -n team-a --dry-run=client",
    ],
)
@click.argument("name")
@click.option("--cpus", metavar="N", help="CPUs that tasks may request at a time.")
@click.option("--memory", metavar="SIZE", help="Memory that tasks may request: 128 (GiB), 512Mi.")
@click.option("--gpus", metavar="N", help="GPUs: 8, A100:8 (the GPUs of that vendor), 0 for none.")
@click.option("--tasks", metavar="N", help="Pods at a time: a task of 3 nodes counts as 3.")
@click.option("--storage", metavar="SIZE", help="Storage that PVCs may request: 500 (GiB), 2Ti.")
@click.option("--group", is_flag=True, help="NAME is a group.")
@click.option("--service-account", is_flag=True, help="NAME is a ServiceAccount; it is created.")
@click.option(
    "--cluster-queue",
    metavar="NAME",
    help="ClusterQueue of the user's LocalQueue; none for no queue (default: the only one).",
)
@click.option(
    "--pod-security",
    type=click.Choice(["baseline", "restricted", "privileged"]),
    help="Pod Security level of the user's own namespace (default: the current one, then"
    " baseline).",
)
@click.option(
    "--with",
    "extras",
    metavar="NAME,...",
    help="Rights besides those of tasks: serve, clean; none takes them back (default: those that"
    " the user has).",
)
@click.option(
    "--policy",
    is_flag=True,
    help="Refuse, in all namespaces that `users add` has created, Services with externalIPs, node"
    " ports or load balancers, pods in the network of cluster nodes, and Ingresses for hosts that"
    " their namespace does not allow.",
)
@options.dry_run
@options.connection
@options.output("json", "yaml", "name")
def add(
    name: str, cluster: options.ClusterFlags, dry_run: str, form: str | None, **flags: str
) -> None:
    """Create the namespace of NAME with a Role, a RoleBinding and a quota, or update them.

    NAME is the user as the cluster knows it: `kubectl auth whoami`. The namespace is sky-NAME, or
    an existing one with --namespace. Limits that you do not set stay as they are; `none` removes
    one. A quota also allows no Services of the types LoadBalancer and NodePort, and limits the
    number of PVCs, Services and ConfigMaps, as long as you do not change that with kubectl. An
    object that was not created for NAME is never changed.
    """
    from kubectl_sky.words import owners
    from kubectl_sky_server.users import action
    from kubectl_sky_server.users.model import GROUP, SERVICE_ACCOUNT, USER, QuotaFlags

    if flags["group"] and flags["service_account"]:
        raise UserError("--group and --service-account cannot be used together")
    kind = SERVICE_ACCOUNT if flags["service_account"] else USER
    kind = GROUP if flags["group"] else kind
    limits = ("cpus", "memory", "gpus", "tasks", "storage")
    quota = QuotaFlags(**{limit: flags[limit] for limit in limits})
    request = action.Request(
        owners.name_owner(name),
        kind,
        cluster.namespace,
        quota,
        flags["cluster_queue"],
        flags["pod_security"],
        _extras(flags["extras"]),
        bool(flags["policy"]),
    )
    added = action.add(cluster.session(), request, dry_run)
    output.notes(added.notes)
    applied = [change for change in added.changes if change.done != "deleted"]
    changes = applied if form else added.changes
    _print_changes(name, changes, form, options.DRY_RUNS[dry_run])
    if not form and dry_run == "none":
        output.notes(_next_steps(added))


def _extras(value: str | None) -> list[str] | None:
    from kubectl_sky.observe.rights import CLEAN, SERVE

    names = [name.strip() for name in value.split(",")] if value is not None else None
    for name in names or ():
        if name not in (CLEAN, SERVE, "none"):
            raise UserError(f'invalid value "{name}" for --with', f"values: {CLEAN}, {SERVE}, none")
    return names


def _print_changes(name: str, changes: Sequence["Change"], form: str | None, suffix: str) -> None:
    if form == "name":
        output.out(f"user/{name}")
    elif form:
        items = [change.object for change in changes]
        output.out(output.data({"apiVersion": "v1", "kind": "List", "items": items}, form))
    else:
        output.out("\n".join(f"{change.name} {change.done}{suffix}" for change in changes))


def _next_steps(added: "Added") -> list[str]:
    account = added.account
    namespace = account.namespace
    name = account.user.name
    steps = [f"tasks of {name}: kubectl sky submit FILE -n {namespace}"]
    if account.kind != "ServiceAccount" and namespace != account.user.namespace:
        remember = f"kubectl config set-context --current --namespace {namespace}"
        steps.append(f"{name} has to name this namespace, or set it once: {remember}")
    if account.cluster_queue:
        queue = account.user.slug
        steps.append(f"in the queue: kubectl sky submit FILE -n {namespace} --queue {queue}")
    if account.kind == "ServiceAccount":
        steps.append(f"token: kubectl create token {name} -n {namespace} --duration 8h")
        steps.append(f"kubeconfig: kubectl config set-credentials {name} --token TOKEN")
    return steps


@command.command("list", examples=["users list", "users list -o json"])
@options.connection
@options.output("json", "yaml", "name")
@options.no_headers
def list_(cluster: options.ClusterFlags, form: str | None) -> None:
    """List the users that `users add` created, in all namespaces or that of --namespace.

    Quotas are shown as used and limit.
    """
    from kubectl_sky_server.users import action, model

    statuses = action.list_accounts(cluster.session(), cluster.namespace)
    document = model.UserList(users=statuses)
    if output.print_document(form, document, (f"user/{status.user}" for status in statuses)):
        return
    if not statuses:
        output.note("No users found; add one: kubectl sky users add NAME")
    else:
        rows = [[cell(status) for cell in _CELLS.values()] for status in statuses]
        output.out(output.table(list(_CELLS), rows))


_GPUS = ("/gpu", "/neuron", "/tpu")  # how the names of their resources end
_CELLS: dict[str, Callable[["User"], str]] = {
    "USER": lambda status: status.user,
    "KIND": lambda status: status.kind,
    "NAMESPACE": lambda status: status.namespace,
    "CPUS": lambda status: status.use("requests.cpu", "cpu", "limits.cpu"),
    "MEMORY": lambda status: status.use("requests.memory", "memory", "limits.memory"),
    "GPUS": lambda status: status.use(
        *(use.resource for use in status.quotas if use.resource.endswith(_GPUS))
    ),
    "PODS": lambda status: status.use("pods", "count/pods"),
    "AGE": lambda status: tasks.since(status.created_at),
}


@command.command("show", examples=["users show alice@example.com", "users show -n team-a"])
@click.argument("name", required=False, type=complete.Text("accounts"))
@options.connection
@options.output("json", "yaml")
def show(name: str | None, cluster: options.ClusterFlags, form: str | None) -> None:
    """Show the quota of NAME: what is used, the limit of each resource, and what is not limited.

    Without NAME, show the quotas of the namespace; you need no more than the rights of a user.
    """
    from kubectl_sky_server.users import action

    status = action.get_account(cluster.session(), name, cluster.namespace)
    if form:
        output.out(output.document("User", status, form))
        return
    facts = {"Namespace": status.namespace}
    if status.user:
        facts = {"User": status.user, "Kind": status.kind} | facts
    if status.queues:
        facts["Queue"] = ", ".join(status.queues)
    facts["Unlimited"] = ", ".join(status.unlimited)
    if status.without_rights:
        facts["Rights"] = "none: its RoleBinding was not found; add the user again"
    lines = ["\n".join(output.fields(facts))]
    if status.quotas:
        rows = [[item.resource, *item.readable, item.quota] for item in status.quotas]
        lines.append(output.table(["RESOURCE", "USED", "LIMIT", "QUOTA"], rows))
    output.out("\n\n".join(lines))
    if not status.quotas:
        output.note(f'No quota in namespace "{status.namespace}".')


@command.command(
    "remove",
    examples=["users remove alice@example.com", "users remove trainer --yes --dry-run=client"],
)
@click.argument("name", type=complete.Text("accounts"))
@click.option("--keep-namespace", is_flag=True, help="Delete the rights and the quota only.")
@click.option("-f", "--force", is_flag=True, help="Remove the user while tasks or services run.")
@options.yes
@options.waits
@options.dry_run_delete
@options.connection
@options.output("json", "yaml", "name")
def remove(
    name: str,
    cluster: options.ClusterFlags,
    dry_run: str,
    form: str | None,
    **flags: bool,
) -> None:
    """Delete what `users add` created for NAME.

    The namespace, with its tasks and volumes, is deleted only if `users add` created it for NAME
    and added no other user to it. It ends when all is gone. If something is not after 30 seconds,
    it says what keeps it; the exit code is 3.
    """
    from kubectl_sky.tasks import deletion
    from kubectl_sky_server.users import action

    session = cluster.session()
    removal = action.plan_removal(
        session, name, cluster.namespace, keeps_namespace=flags["keep_namespace"]
    )
    remaining: Sequence[Remainder] | None = []
    if dry_run == "none":
        _check_removal(removal, force=flags["force"], confirmed=flags["yes"])
        remaining = action.remove(session, removal, waits=flags["waits"])
    changes = action.list_deletions(removal.objects, remaining)
    if form != "name" or not remaining:
        _print_changes(name, changes, form, options.DRY_RUNS[dry_run])
    if removal.others:
        output.note(f"namespace {removal.namespace} is kept: {', '.join(removal.others)} use it")
    running = _describe_running(removal)
    if running and dry_run == "none" and not removal.deletes_namespace:
        output.note(f"still running in namespace {removal.namespace}: {running}")
    if remaining:
        raise deletion.still_deleting(remaining)


def _describe_running(removal: "Removal") -> str:
    """Name the tasks and services that are not finished: `2 tasks (ID, ID), 1 service (chat)`."""
    running = {"task": [task.id for task in removal.running], "service": removal.services}
    return ", ".join(
        f"{output.count(len(items), what)} ({', '.join(items[:12])})"
        for what, items in running.items()
        if items
    )


def _check_removal(removal: "Removal", *, force: bool, confirmed: bool) -> None:
    """Refuse while tasks or services run, and ask before a namespace is deleted.

    Raises UserError.
    """
    running = _describe_running(removal)
    if running and not force:
        raise UserError(
            f'not finished in namespace "{removal.namespace}": {running}',
            "run `kubectl sky stop` and `kubectl sky serve down` first, or use --force",
        )
    if removal.deletes_namespace and not confirmed:
        volumes = output.count(removal.volumes, "volume")
        options.confirm(
            f"Delete namespace {removal.namespace} with everything in it, including {volumes}?"
        )
