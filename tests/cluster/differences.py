"""The tests that can not run on the practice cluster, each with its reason: keep this short.

A test is named by its file and function; with `[id]`, only that case of it is meant.
"""

_TROUBLE = "tests/e2e/test_doctor.py::test_doctor_failing_task_reports_matching_finding[{}]"

_ACCOUNTED = "the practice cluster accounts memory and does not limit it"
_BOUND = "the practice cluster lets no scheduler but its own place pods"
_DNS = "pods of the practice cluster use the DNS of their machine"
_EVICTIONS = "the practice cluster has no machines to empty, and so no evictions"
_IMAGES = "the practice cluster does not pull images, and this is about what comes of that"
_KREW = "this is about the archive and krew, which need Go and minutes; once is enough"
_TOKENS = "the practice cluster gives pods no tokens of their service accounts"
_PLACED = "the practice cluster's scheduler knows nodes, and not what else runs on them"
_ROTATED = "the practice cluster puts no log away while it is written"
_ROOM = "volumes of the practice cluster are folders, and have the room of their disk"
_SECURITY = "the practice cluster has no levels of Pod Security: its pods are the user's processes"
_RULED = "the practice cluster has neither admission webhooks nor policies"
_USER = "pods of the practice cluster are processes of one user, who can write what the user can"

REAL_ONLY = {
    "tests/e2e/test_admission.py::test_submit_denied_by_admission_policy_leaves_no_objects": _RULED,
    "tests/e2e/test_cp.py::test_cp_image_without_tar_is_refused": _IMAGES,
    "tests/contract/test_problems.py::test_error_pod_security_names_level": _SECURITY,
    "tests/contract/test_rotation.py::test_logs_follow_rotated_log_prints_every_line": _ROTATED,
    "tests/e2e/test_config.py::test_submit_token_is_mounted_only_with_service_account": _TOKENS,
    "tests/e2e/test_delivery.py::test_submit_volume_too_small_for_files_fails_task": _ROOM,
    "tests/e2e/test_files.py::test_submit_file_mount_to_unwritable_path_fails_task": _USER,
    "tests/e2e/test_files.py::test_submit_workdir_as_non_root_on_read_only_root_is_writable": _USER,
    "tests/e2e/test_krew.py::test_installed_plugin_prints_version_and_help": _KREW,
    "tests/e2e/test_krew.py::test_installed_plugin_runs_task": _KREW,
    "tests/e2e/test_krew.py::test_installed_plugin_local_up_starts_practice_cluster": _KREW,
    "tests/e2e/test_krew.py::test_credential_plugin_gets_no_bundled_libraries": _KREW,
    "tests/e2e/test_lifecycle.py::test_submit_pending_node_prints_reason": _IMAGES,
    "tests/e2e/test_controllers.py::test_controllers_install_is_accepted_by_cluster": _SECURITY,
    "tests/e2e/test_server_install.py::test_kustomize_example_is_accepted_as_restricted": _SECURITY,
    "tests/e2e/test_seed.py::test_task_lifecycle_from_specification_completes": _IMAGES,
    "tests/e2e/test_seed.py::test_multi_node_training_from_specification_completes": _IMAGES,
    "tests/e2e/test_submit.py::test_submit_failed_task_exits_with_4[out of memory]": _ACCOUNTED,
    "tests/e2e/test_disruptions.py::test_evicted_node_that_saves_is_restarted": _EVICTIONS,
    "tests/e2e/test_disruptions.py::test_evicted_stage_that_saves_does_not_start_next_stage": (
        _EVICTIONS
    ),
    "tests/e2e/test_disruptions.py::test_node_that_starts_too_late_to_meet_the_others_fails": (
        _EVICTIONS
    ),
    "tests/e2e/test_disruptions.py::test_nodes_without_addresses_name_each_other": _DNS,
    "tests/e2e/test_evictions.py::test_commands_pod_over_ephemeral_storage_report_evicted": _ROOM,
    "tests/e2e/test_evictions.py::test_commands_evicted_pod_name_node_and_reason": _EVICTIONS,
    "tests/e2e/test_users.py::test_users_add_policy_refuses_ways_out_of_namespace": _RULED,
    "tests/e2e/test_volcano.py::test_submit_volcano_bound_gang_runs_to_completion": _BOUND,
    _TROUBLE.format("image-name"): _IMAGES,
    _TROUBLE.format("spread"): _PLACED,
    _TROUBLE.format("pod-security"): _SECURITY,
    _TROUBLE.format("out-of-memory"): _ACCOUNTED,
}


def real_only(test: str) -> str:
    """Return why a test, by its node id, can not run on the practice cluster, or nothing."""
    function, _, case = test.partition("[")
    words = [word for word in case.removesuffix("]").split("-") if word != "practice"]
    named = f"{function}[{'-'.join(words)}]"
    return REAL_ONLY.get(function) or REAL_ONLY.get(named) or ""
