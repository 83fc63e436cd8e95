"""The flags of the programs that the examples call, as of the versions that they name.

A name that ends with = takes a value. Lists of programs with hundreds of flags have the usual ones.
"""

_AWS = """ca-bundle= cli-connect-timeout= cli-read-timeout= color= debug endpoint-url= no-paginate
no-sign-request no-verify-ssl output= profile= query= region="""
_AWS_COPY = f"""{_AWS} acl= cache-control= checksum-algorithm= checksum-mode= content-disposition=
content-encoding= content-language= content-type= dryrun exclude= expires= follow-symlinks
force-glacier-transfer grants= ignore-glacier-warnings include= metadata-directive= metadata=
no-follow-symlinks no-guess-mime-type no-progress only-show-errors page-size= quiet request-payer=
source-region= sse-c-copy-source-key= sse-c-copy-source= sse-c-key= sse-c= sse-kms-key-id= sse=
storage-class= website-redirect="""
_FLAGS = {
    # accelerate 1.11.0
    "accelerate launch": """config_file= quiet cpu multi_gpu tpu mixed_precision= num_processes=
    num_machines= num_cpu_threads_per_process= enable_cpu_affinity dynamo_backend= dynamo_mode=
    dynamo_use_fullgraph dynamo_use_dynamic use_deepspeed use_fsdp use_parallelism_config
    use_megatron_lm use_xpu gpu_ids= same_network machine_rank= main_process_ip=
    main_process_port= tee= log_dir= role= rdzv_backend= rdzv_conf= max_restarts=
    monitor_interval= module no_python deepspeed_config_file= zero_stage= offload_optimizer_device=
    gradient_accumulation_steps= gradient_clipping= fsdp_version= fsdp_offload_params=
    fsdp_min_num_params= fsdp_sharding_strategy= fsdp_reshard_after_forward=
    fsdp_auto_wrap_policy= fsdp_transformer_layer_cls_to_wrap= fsdp_backward_prefetch=
    fsdp_state_dict_type= fsdp_forward_prefetch= fsdp_use_orig_params=
    fsdp_cpu_ram_efficient_loading= fsdp_sync_module_states= fsdp_activation_checkpointing= debug
    parallelism_config_tp_size= parallelism_config_cp_size=""",
    # awscli 1.42.62
    "aws s3 cp": f"{_AWS_COPY} expected-size= recursive",
    "aws s3 sync": f"{_AWS_COPY} delete exact-timestamps size-only",
    "aws s3 ls": f"""{_AWS} bucket-name-prefix= bucket-region= human-readable page-size= recursive
    request-payer= summarize""",
    # code-server 4.104.2
    "code-server": """app-name= auth= bind-addr= cert cert-host= cert-key= config= disable-telemetry
    disable-update-check extensions-dir= hashed-password= idle-timeout-seconds=
    ignore-last-opened install-extension= password= socket= user-data-dir= verbose""",
    # jupyterlab 4.4.9
    "jupyter lab": """allow-root app-dir= autoreload browser= certfile= client-ca= config= core-mode
    debug dev-mode generate-config ip= keyfile= log-level= no-browser notebook-dir= port-retries=
    port= pylab= show-config skip-dev-build watch=""",
    # ollama 0.13.5
    "ollama list": "",
    "ollama pull": "insecure",
    "ollama serve": "",
    "pip install": """constraint= editable= extra-index-url= find-links= force-reinstall
    index-url= no-build-isolation no-cache-dir no-deps pre quiet requirement= target= upgrade""",
    # sglang 0.5.5; argparse accepts --tp for --tp-size
    "python3 -m sglang.launch_server": """api-key= chunked-prefill-size= context-length= dp-size=
    dtype= host= log-level= mem-fraction-static= model-path= nnodes= node-rank= port= quantization=
    served-model-name= tensor-parallel-size= tokenizer-path= tp-size= tp= trust-remote-code""",
    # Ray 2.60.0
    "ray start": """address= block dashboard-host= dashboard-port= disable-usage-stats head
    include-dashboard= labels= min-worker-port= max-worker-port= node-ip-address=
    node-manager-port= num-cpus= num-gpus= object-store-memory= port= ray-client-server-port=
    resources= temp-dir= verbose""",
    # tensorboard 2.20.0
    "tensorboard": """bind_all db= detect_file_replacement= event_file= generic_data= helpfull host=
    inspect load_fast= logdir= logdir_spec= max_reload_threads= path_prefix= port=
    purge_orphaned_data= reload_interval= reload_multifile= reload_task= reuse_port=
    samples_per_plugin= tag= window_title=""",
    # PyTorch 2.8.0
    "torchrun": """local-addr= local-ranks-filter= log-dir= master-addr= master-port= max-restarts=
    module monitor-interval= nnodes= no-python node-rank= nproc-per-node= rdzv-backend= rdzv-conf=
    rdzv-endpoint= rdzv-id= redirects= role= run-path standalone start-method= tee=""",
    # vLLM 0.11.0
    "vllm run-batch": """dtype= enable-metrics gpu-memory-utilization= input-file= max-model-len=
    model= output-file= output-tmp-dir= port= quantization= response-role= tensor-parallel-size=
    trust-remote-code url=""",
    "vllm serve": """api-key= data-parallel-size= dtype= enable-auto-tool-choice
    enable-prefix-caching gpu-memory-utilization= host= max-model-len= max-num-seqs=
    pipeline-parallel-size= port= quantization= served-model-name= tensor-parallel-size=
    tool-call-parser= trust-remote-code""",
}
FLAGS = {program: frozenset(flags.split()) for program, flags in _FLAGS.items()}
PROGRAMS = frozenset(program.split()[0] for program in FLAGS) - {"python3"}
_LAUNCHERS = (
    "accelerate launch",
    "torchrun",
)  # their first other word is a script, with its own flags

# The fields of TrainingArguments in transformers 4.57.1 that training scripts use.
_ARGUMENTS = """
    adam_beta1 adam_beta2 bf16 dataloader_num_workers ddp_backend deepspeed do_eval do_train
    eval_steps eval_strategy fp16 fsdp fsdp_config gradient_accumulation_steps
    gradient_checkpointing learning_rate load_best_model_at_end logging_dir logging_steps
    lr_scheduler_type max_grad_norm max_steps num_train_epochs optim output_dir
    per_device_eval_batch_size per_device_train_batch_size push_to_hub remove_unused_columns
    report_to resume_from_checkpoint run_name save_only_model save_safetensors save_steps
    save_strategy save_total_limit seed tf32 torch_compile warmup_ratio warmup_steps
    weight_decay"""
TRAINING_ARGUMENTS = frozenset(_ARGUMENTS.split())


def check(words: list[str]) -> list[str]:
    """Return the words of a call that are no flags. Raises SystemExit for a flag that is wrong."""
    program = max(
        (name for name in FLAGS if words[: len(name.split())] == name.split()), default=""
    )
    if not program:
        raise SystemExit(f"unknown command: {' '.join(words[:3])}")
    rest = words[len(program.split()) :]
    others = list[str]()

    while rest:
        word = rest.pop(0)
        name, equals, _ = word[2:].partition("=")
        if (others and program in _LAUNCHERS) or not word.startswith("--"):
            others.append(word)
        elif f"{name}=" in FLAGS[program]:
            if not equals and (not rest or rest.pop(0).startswith("--")):
                raise SystemExit(f"{program}: {word} needs a value")
        elif equals or name not in FLAGS[program]:
            raise SystemExit(f"{program}: unknown flag {word}")

    return others
