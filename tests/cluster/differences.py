"""The tests that can not run on the practice cluster, each with its reason: keep this short.

A test is named by its file and function; with `[id]`, only that case of it is meant.
"""

_TROUBLE = "tests/e2e/test_doctor.py::test_a_failure_is_explained[{}]"

_ACCOUNTED = "the practice cluster accounts memory and does not limit it"
_BOUND = "the practice cluster lets no scheduler but its own place pods"
_EVICTIONS = "the practice cluster has no machines to empty, and so no evictions"
_IMAGES = "the practice cluster does not pull images, and this is about what comes of that"
_KREW = "this is about the archive and krew, which need Go and minutes; once is enough"
_TOKENS = "the practice cluster gives pods no tokens of their service accounts"
_PLACED = "the practice cluster's scheduler knows nodes, and not what else runs on them"
_PROBES = "the practice cluster runs no probes and knows no drivers"
_ROTATED = "the practice cluster puts no log away while it is written"
_ROOM = "volumes of the practice cluster are folders, and have the room of their disk"
_SECURITY = "the practice cluster has no levels of Pod Security: its pods are the user's processes"
_RULED = "the practice cluster has neither admission webhooks nor policies"
_USER = "pods of the practice cluster are processes of one user, who can write what the user can"

REAL_ONLY = {
    "tests/e2e/test_admission.py::test_a_policy_that_refuses": _RULED,
    "tests/e2e/test_admission.py::test_a_webhook_that_does_not_answer": _RULED,
    "tests/e2e/test_admission.py::test_a_webhook_that_refuses": _RULED,
    "tests/e2e/test_cp.py::test_an_image_without_tar": _IMAGES,
    "tests/contract/test_problems.py::test_pod_security": _SECURITY,
    "tests/contract/test_rotation.py::test_rotated_while_it_is_followed": _ROTATED,
    "tests/e2e/test_config.py::test_the_account_s_token": _TOKENS,
    "tests/e2e/test_delivery.py::test_where_there_is_no_room": _ROOM,
    "tests/e2e/test_files.py::test_an_unwritable_place_is_told": _USER,
    "tests/e2e/test_files.py::test_as_a_user_without_rights": _USER,
    "tests/e2e/test_krew.py::test_installed_plugin_answers": _KREW,
    "tests/e2e/test_krew.py::test_installed_plugin_runs_a_task": _KREW,
    "tests/e2e/test_krew.py::test_installed_plugin_has_a_practice_cluster": _KREW,
    "tests/e2e/test_krew.py::test_credential_plugins_get_the_users_libraries": _KREW,
    "tests/e2e/test_lifecycle.py::test_what_a_task_waits_for_is_told[image]": _IMAGES,
    "tests/e2e/test_recovery.py::test_an_evicted_pod_is_followed_by_another": _EVICTIONS,
    "tests/e2e/test_server_install.py::test_server_and_ingress_are_accepted": _SECURITY,
    "tests/e2e/test_seed.py::test_complete_task_lifecycle": _IMAGES,
    "tests/e2e/test_seed.py::test_multi_node_distributed_training": _IMAGES,
    "tests/e2e/test_submit.py::test_a_failing_task[out of memory]": _ACCOUNTED,
    "tests/e2e/test_unusual.py::test_commands_node_over_its_ephemeral_storage_say_evicted": _ROOM,
    "tests/e2e/test_unusual.py::test_commands_pod_evicted_name_node_and_reason": _EVICTIONS,
    "tests/e2e/test_volcano.py::test_a_gang_runs": _BOUND,
    "tests/e2e/test_volcano.py::test_one_fails_and_the_others_end": _BOUND,
    **{_TROUBLE.format(name): _IMAGES for name in ("image-name", "image-never")},
    **{_TROUBLE.format(name): _IMAGES for name in ("registry-unreachable", "runs-as-root")},
    **{_TROUBLE.format(name): _PLACED for name in ("anti-affinity", "spread", "host-port")},
    **{_TROUBLE.format(name): _PROBES for name in ("probe", "driver-missing")},
    _TROUBLE.format("volume-elsewhere"): "the practice cluster's volumes are all on one machine",
    _TROUBLE.format("pod-security"): _SECURITY,
    _TROUBLE.format("out-of-memory"): _ACCOUNTED,
}


def real_only(test: str) -> str:
    """Return why a test, by its node id, can not run on the practice cluster, or nothing."""
    function, _, case = test.partition("[")
    words = [word for word in case.removesuffix("]").split("-") if word != "practice"]
    named = f"{function}[{'-'.join(words)}]"
    return REAL_ONLY.get(function) or REAL_ONLY.get(named) or ""
