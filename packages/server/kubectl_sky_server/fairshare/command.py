"""`kubectl sky queues fairshare`."""

from datetime import UTC, datetime

from kubectl_sky.cli import commands, options, output


@commands.command("fairshare", examples=["queues fairshare", "queues fairshare -o json"])
@options.connection
@options.output("json", "yaml", "name")
@options.no_headers
def command(cluster: options.ClusterFlags, form: str | None) -> None:
    """Show the fair share of Volcano queues: PriorityClasses, and what lowers their values.

    COUNT are finished PodGroups, RUNNING those that run. RECOVERS is the time until the count
    falls, if none starts or finishes before.
    """
    from kubectl_sky.words import age
    from kubectl_sky_server.fairshare.action import FairShareList, list_classes

    classes = list_classes(cluster.session())
    document = FairShareList(classes=classes)
    if output.print_document(form, document, (f"priorityclass/{item.name}" for item in classes)):
        return
    if not classes:
        output.note("No PriorityClasses of fair share found; see `kubectl sky controllers`.")
    else:
        now = datetime.now(UTC)
        rows = [
            [
                item.name,
                item.queue,
                item.owner or "-",
                *(str("?" if number is None else number) for number in (item.base, item.value)),
                *("?" if number is None else str(number) for number in (item.count, item.running)),
                age.duration(recovers - now) if (recovers := age.parse(item.recovers)) else "-",
            ]
            for item in classes
        ]
        header = ["NAME", "QUEUE", "OWNER", "BASE", "VALUE", "COUNT", "RUNNING", "RECOVERS"]
        output.out(output.table(header, rows))
