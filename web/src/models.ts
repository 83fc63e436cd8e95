// Made of the documents by UPDATE_GOLDEN=1 pytest tests/test_documents.py.

export interface Task {
  context?: string;
  created_at: string;
  metadata: TaskMetadata;
  name: string;
  status: string;
  task_id: string;
  updated_at: string;
  username: string;
}

export interface Pipeline {
  created_at: string;
  execution: string;
  metadata: PipelineMetadata;
  name: string;
  pipeline_id: string;
  status: string;
  tasks: Task[];
  updated_at: string;
  username: string;
}

export interface Problem {
  column: number;
  document: number;
  file: string;
  hint: string;
  line: number;
  message: string;
  path: string;
  severity: string;
  strict: boolean;
}

export interface Diagnosis {
  findings: Finding[];
  name: string;
  not_readable: string[];
  stages: Record<string, string>;
  status: string;
  summary: string;
  task_id: string;
}

export interface NodeUsage {
  cpus: number;
  cpus_asked: number | null;
  gpus_asked: number | null;
  memory_bytes: number;
  memory_bytes_asked: number | null;
  node: number;
  pod: string;
}

export interface Timeline {
  now: string;
  tasks: TaskTimeline[];
}

export interface Volume {
  volume_id: string;
  name: string;
  size: string;
  storage_class: string;
  access_modes: string[];
  status: string;
  created_at: string;
  username: string;
  metadata: VolumeMetadata;
  reason?: string;
  used_by?: string[];
  done?: string;
}

export interface GpuNode {
  accelerator: string;
  free: number | null;
  node: string;
  ready: boolean;
  resource: string;
  total: number;
  used: number | null;
  users: Record<string, number>;
}

export interface GpuHoursList {
  by: string;
  inexact_tasks: number;
  rows: GpuHours[];
  since: string;
  total: GpuHours;
}

export interface ServiceFields {
  created_at: string;
  endpoints: string[];
  findings: Finding[];
  message: string;
  name: string;
  namespace: string;
  pods: Replica[];
  replicas: ReplicaCounts;
  status: string;
  username: string;
  version: number;
  version_id: string;
}

export interface QueueFields {
  admitted: number;
  cluster_queue: string;
  name: string;
  namespace: string;
  pending: number;
  pending_in_cluster_queue: number | null;
  resources: Share[];
  stopped: string;
  waiting: Waiting[];
}

export interface ClusterEvent {
  count: number;
  message: string;
  object: string;
  reason: string;
  time: string;
  type: string;
}

export interface WhoAmI {
  all_namespaces: boolean;
  context: string;
  groups: string[];
  namespace: string;
  namespaces: string[];
  user: string;
}

export interface TaskMetadata {
  backend: string;
  detailed_status: string;
  evidence?: DeletedPod[];
  failed_nodes: number;
  image: string;
  job_name: string;
  namespace: string;
  node_jobs: string[];
  nodes: Node[];
  note: string;
  num_nodes: number;
  pending_nodes: number;
  pipeline?: string;
  pipeline_name?: string;
  resources: NodeResources;
  restarts: number;
  running_nodes: number;
  stage?: number;
  succeeded_nodes: number;
}

export interface DeletedPod {
  ended_at?: string;
  exit_code?: number;
  gpu?: string;
  gpus?: number;
  host?: string;
  lines: string[];
  message?: string;
  name: string;
  pod: string;
  rank: number;
  reason?: string;
  started_at?: string;
}

export interface Node {
  detailed_status: string;
  ended_at?: string;
  exit_code?: number;
  host?: string;
  index: number;
  job: string;
  kept_by?: string;
  message?: string;
  name: string;
  phase?: string;
  pod?: string;
  previous?: string;
  reason?: string;
  restarts: number;
  started_at?: string;
  state: string;
}

export interface NodeResources {
  accelerators?: string;
  cpus?: string;
  gpus: number;
  memory?: string;
}

export interface PipelineMetadata {
  namespace: string;
  note: string;
  num_tasks: number;
}

export interface Finding {
  evidence: string;
  nodes: number[];
  rule: string;
  stage: string;
  then: string;
  what: string;
}

export interface TaskTimeline {
  name: string;
  nodes: NodeTimeline[];
  status: string;
  task_id: string;
}

export interface NodeTimeline {
  index: number;
  name: string;
  phases: PhaseTime[];
  pod: string;
  restarts: number;
  state: string;
  unknown: string[];
}

export interface PhaseTime {
  end: string | null;
  phase: string;
  start: string;
}

export interface VolumeMetadata {
  pvc_name: string;
  namespace: string;
}

export interface GpuHours {
  gpu_hours: number;
  key: string;
  tasks: number;
}

export interface Replica {
  created_at: string;
  host: string;
  number: number;
  pod: string;
  ready: boolean;
  reason: string;
  restarts: number;
  version: number;
}

export interface ReplicaCounts {
  most: number | null;
  ready: number;
  total: number;
  updated: number;
  wanted: number;
}

export interface Share {
  flavor: string;
  quota: string | null;
  resource: string;
  used: string;
  used_by_all: string | null;
}

export interface Waiting {
  position: number;
  priority: number;
  reason: string;
  since: string;
  workload: string;
}
