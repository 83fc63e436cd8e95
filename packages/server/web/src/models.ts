// Made of the documents by UPDATE_GOLDEN=1 pytest tests/test_documents.py.

export interface Task {
  task_id: string;
  name: string;
  status: string;
  created_at: string;
  updated_at: string;
  username: string;
  metadata: TaskMetadata;
  context?: string;
}

export interface Pipeline {
  pipeline_id: string;
  name: string;
  status: string;
  execution: string;
  created_at: string;
  updated_at: string;
  username: string;
  metadata: PipelineMetadata;
  tasks: Task[];
}

export interface Problem {
  file: string;
  line: number;
  column: number;
  path: string;
  message: string;
  hint: string;
  severity: string;
  document: number;
  strict: boolean;
}

export interface Diagnosis {
  task_id: string;
  name: string;
  status: string;
  summary: string;
  stages: Record<string, string>;
  findings: Finding[];
  not_readable: string[];
  ranks?: RankActivity[];
}

export interface Usage {
  task_id: string;
  nodes: NodeUsage[];
  reason?: string;
  history?: UsageHistory;
  history_reason?: string;
}

export interface Timeline {
  now: string;
  tasks: TaskTimeline[];
}

export interface Goodput {
  now: string;
  tasks: TaskGoodput[];
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

export interface AcceleratorNode {
  node: string;
  accelerator: string;
  resource: string;
  total: number;
  used: number | null;
  free: number | null;
  ready: boolean;
  users: Record<string, number>;
}

export interface GpuHoursList {
  since: string;
  by: string;
  rows: GpuHours[];
  total: GpuHours;
  inexact_tasks: number;
  goodput?: GpuHoursGoodput;
}

export interface Service {
  name: string;
  namespace: string;
  username: string;
  status: string;
  created_at: string;
  version: number;
  version_id: string;
  replicas: ReplicaCounts;
  endpoints: string[];
  message: string;
  findings: Finding[];
  pods: Replica[];
}

export interface Queue {
  name: string;
  namespace: string;
  cluster_queue: string;
  admitted: number;
  pending: number;
  stopped: string;
  pending_in_cluster_queue: number | null;
  resources: Share[];
  waiting: Waiting[];
  cohort: string;
  strict: boolean;
  recent_admissions: number;
  interval_seconds: number | null;
}

export interface Quota {
  namespace: string;
  quota: string;
  resource: string;
  used: string;
  hard: string;
}

export interface ClusterEvent {
  time: string;
  type: string;
  reason: string;
  object: string;
  message: string;
  count: number;
}

export interface WhoAmI {
  user: string;
  groups: string[];
  context: string;
  namespace: string;
  all_namespaces: boolean;
  namespaces: string[];
}

export interface TaskMetadata {
  detailed_status: string;
  job_name: string;
  namespace: string;
  backend: string;
  num_nodes: number;
  image: string;
  resources: NodeResources;
  node_jobs: string[];
  succeeded_nodes: number;
  failed_nodes: number;
  running_nodes: number;
  pending_nodes: number;
  restarts: number;
  note: string;
  nodes: Node[];
  logs?: string;
  envs?: Record<string, string>;
  files?: Record<string, string>;
  revisions?: Record<string, string>;
  volumes?: PvcMount[];
  goodput_percent?: number;
  pipeline?: string;
  pipeline_name?: string;
  stage?: number;
  labels?: Record<string, string>;
  evidence?: DeletedPod[];
}

export interface NodeResources {
  gpus: number;
  cpus?: string;
  memory?: string;
  accelerators?: string;
}

export interface Node {
  index: number;
  name: string;
  job: string;
  state: string;
  pod?: string;
  host?: string;
  reason?: string;
  message?: string;
  exit_code?: number;
  started_at?: string;
  ended_at?: string;
  restarts: number;
  previous?: string;
  phase?: string;
  stopped_for?: string;
  kept_by?: string;
  held_until?: string;
  lost_since?: string;
  setup_since?: string;
  rejected_by?: string;
  leaving?: string;
  image_digest?: string;
  sweep?: Record<string, string>;
  detailed_status: string;
}

export interface PvcMount {
  path: string;
  pvc: string;
  folder?: string;
  read_only?: boolean;
}

export interface DeletedPod {
  rank: number;
  name: string;
  pod: string;
  host?: string;
  reason?: string;
  message?: string;
  ended_at?: string;
  exit_code?: number;
  lines: string[];
  started_at?: string;
  gpus?: number;
  gpu?: string;
}

export interface PipelineMetadata {
  namespace: string;
  num_tasks: number;
  note: string;
}

export interface Finding {
  rule: string;
  stage: string;
  what: string;
  then: string;
  nodes: number[];
  evidence: string;
}

export interface RankActivity {
  rank: number;
  restarts: number;
  last_output?: string;
  last_line?: string;
  interval?: number;
  limit?: number;
  cpus?: number;
  gpu_percent?: number;
  position?: string;
  waits?: boolean;
  moves?: boolean;
  is_busy?: boolean;
  is_behind?: boolean;
  flight_recorder?: string;
}

export interface NodeUsage {
  node: number;
  pod: string;
  cpus: number;
  memory_bytes: number;
  cpus_asked: number | null;
  memory_bytes_asked: number | null;
  gpus_asked: number | null;
}

export interface UsageHistory {
  start: number;
  step: number;
  series: UsageSeries[];
}

export interface UsageSeries {
  node: number;
  measure: string;
  values: (number | null)[];
}

export interface TaskTimeline {
  task_id: string;
  name: string;
  status: string;
  nodes: NodeTimeline[];
}

export interface NodeTimeline {
  index: number;
  name: string;
  state: string;
  restarts: number;
  pod: string;
  phases: Span[];
  unknown: string[];
}

export interface Span {
  phase: string;
  start: string;
  end: string | null;
}

export interface TaskGoodput {
  task_id: string;
  name: string;
  status: string;
  seconds: number;
  shares: TimeUse[];
  nodes: NodePace[];
  slow_since?: string;
  former?: string;
  former_step_seconds?: number;
  notes?: string[];
}

export interface TimeUse {
  use: string;
  seconds: number;
  percent: number;
  gpu_hours?: number;
}

export interface NodePace {
  index: number;
  name: string;
  steps: number;
  step_seconds?: number;
  latest_seconds?: number;
  slow_since?: string;
}

export interface VolumeMetadata {
  pvc_name: string;
  namespace: string;
}

export interface GpuHours {
  key: string;
  tasks: number;
  gpu_hours: number;
}

export interface GpuHoursGoodput {
  percent: number;
  known: number;
  finished: number;
}

export interface ReplicaCounts {
  wanted: number;
  ready: number;
  updated: number;
  total: number;
  most: number | null;
}

export interface Replica {
  number: number;
  pod: string;
  version: number;
  ready: boolean;
  restarts: number;
  host: string;
  created_at: string;
  reason: string;
}

export interface Share {
  flavor: string;
  resource: string;
  used: string;
  used_by_all: string | null;
  quota: string | null;
  free: string | null;
}

export interface Waiting {
  workload: string;
  position: number;
  priority: number;
  since: string;
  reason: string;
}
