// Volumes: list, create, delete.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, post, request, url, type Volume, type Whoami } from "./api";
import { age, localTime } from "./format";
import { AllUsers, announce, Confirm, Dialog, Empty, ErrorNote, Title, useClock } from "./parts";

const ACCESS_MODES = ["ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany"];

export function Volumes({ user }: { user: Whoami }) {
  const [volumes, setVolumes] = useState<Volume[] | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [allUsers, setAllUsers] = useState(false);
  const [round, setRound] = useState(0);
  const [creating, setCreating] = useState(false);
  const [deleting, setDeleting] = useState<Volume | null>(null);
  useClock();
  const load = () => setRound((count) => count + 1);
  useEffect(() => {
    get<{ volumes: Volume[] }>("/volumes", { all_users: allUsers }).then((result) => {
      setVolumes(result.volumes);
      setError(null);
    }, setError);
  }, [allUsers, round]);
  // A new volume is bound a moment later.
  useEffect(() => {
    if (!volumes?.some(({ status }) => status === "Pending")) return;
    const timer = setTimeout(load, 3000);
    return () => clearTimeout(timer);
  }, [volumes]);
  const mayDelete = (volume: Volume) => !allUsers || volume.username === user.user;
  return (
    <>
      <div class="heading">
        <Title text="Volumes" />
        <div class="heading-actions">
          <button type="button" class="primary" onClick={() => setCreating(true)}>
            Create a volume
          </button>
        </div>
      </div>
      <div class="toolbar">
        <AllUsers checked={allUsers} onChange={setAllUsers} />
      </div>
      {error ? <ErrorNote error={error} /> : null}
      {!volumes && !error && <p class="muted">Loading…</p>}
      {volumes && !volumes.length && (
        <Empty title="No volumes">
          <p>
            A volume keeps data between tasks: mount it with <code>volumes:</code> in a task file.
          </p>
        </Empty>
      )}
      {volumes && volumes.length > 0 && (
        <VolumeTable volumes={volumes} allUsers={allUsers} mayDelete={mayDelete} onDelete={setDeleting} />
      )}
      {creating && <Create onClose={() => setCreating(false)} onCreated={load} />}
      {deleting && <Delete volume={deleting} onDone={load} onClose={() => setDeleting(null)} />}
    </>
  );
}

interface VolumeTableProps {
  volumes: Volume[];
  allUsers: boolean;
  mayDelete(volume: Volume): boolean;
  onDelete(volume: Volume): void;
}

function VolumeTable({ volumes, allUsers, mayDelete, onDelete }: VolumeTableProps) {
  return (
    <div class="card table">
      <table>
        <caption class="visually-hidden">Volumes, newest first</caption>
        <thead>
          <tr>
            <th scope="col">Volume</th>
            <th scope="col">Size</th>
            <th scope="col">Status</th>
            <th scope="col" class="wide-only">
              Access modes
            </th>
            <th scope="col" class="wide-only">
              StorageClass
            </th>
            {allUsers && (
              <th scope="col" class="wide-only">
                User
              </th>
            )}
            <th scope="col" class="wide-only">
              Age
            </th>
            <th scope="col">
              <span class="visually-hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {volumes.map((volume) => (
            <VolumeRow
              key={volume.volume_id}
              volume={volume}
              allUsers={allUsers}
              onDelete={mayDelete(volume) ? onDelete : undefined}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface VolumeRowProps {
  volume: Volume;
  allUsers: boolean;
  onDelete?(volume: Volume): void;
}

function VolumeRow({ volume, allUsers, onDelete }: VolumeRowProps) {
  return (
    <tr>
      <th scope="row">
        {volume.name}
        <span class="sub">
          <code>{volume.volume_id}</code>
        </span>
      </th>
      <td>{volume.size}</td>
      <td>
        <span class={`badge ${volume.status.toLowerCase()}`}>{volume.status}</span>
        {volume.reason && <span class="sub reason">{volume.reason}</span>}
      </td>
      <td class="wide-only">{volume.access_modes.join(", ")}</td>
      <td class="wide-only">{volume.storage_class}</td>
      {allUsers && <td class="wide-only">{volume.username}</td>}
      <td class="wide-only" title={localTime(volume.created_at)}>
        {age(volume.created_at)}
      </td>
      <td class="row-actions">
        {onDelete && (
          <button type="button" class="small" onClick={() => onDelete(volume)}>
            Delete
            <span class="visually-hidden">
              {" "}
              {volume.name} {volume.volume_id}
            </span>
          </button>
        )}
      </td>
    </tr>
  );
}

interface DeleteProps {
  volume: Volume;
  onDone(): void;
  onClose(): void;
}

function Delete({ volume, onDone, onClose }: DeleteProps) {
  const remove = async () => {
    const path = url(`/volumes/${encodeURIComponent(volume.volume_id)}`, { namespace: volume.metadata.namespace });
    announce((await request<{ message: string }>("DELETE", path)).message);
    onDone();
  };
  return (
    <Confirm
      title={`Delete volume ${volume.name}?`}
      text={`This deletes PVC ${volume.metadata.pvc_name} (${volume.size}) and the data in it.`}
      action="Delete volume"
      run={remove}
      onClose={onClose}
    />
  );
}

function Create({ onClose, onCreated }: { onClose(): void; onCreated(): void }) {
  const [name, setName] = useState("");
  const [size, setSize] = useState("10Gi");
  const [storageClass, setStorageClass] = useState("");
  const [mode, setMode] = useState(ACCESS_MODES[0]!);
  const [error, setError] = useState<unknown>(null);
  const create = async (event: Event) => {
    event.preventDefault();
    try {
      const body = { name, size, access_modes: [mode], ...(storageClass && { storage_class: storageClass }) };
      await post("/volumes/create", {}, body);
      announce(`Volume ${name} created`);
      onCreated();
      onClose();
    } catch (problem) {
      setError(problem);
    }
  };
  const storageClassLabel = (
    <>
      StorageClass <span class="muted">(default: the cluster's)</span>
    </>
  );
  return (
    <Dialog title="Create a volume" onClose={onClose}>
      <form onSubmit={create} class="fields">
        <TextField id="volume-name" label="Name" value={name} onInput={setName} required />
        <TextField id="volume-size" label="Size" value={size} onInput={setSize} required />
        <TextField id="volume-class" label={storageClassLabel} value={storageClass} onInput={setStorageClass} />
        <label for="volume-mode">Access mode</label>
        <select id="volume-mode" value={mode} onChange={(event) => setMode(event.currentTarget.value)}>
          {ACCESS_MODES.map((entry) => (
            <option key={entry}>{entry}</option>
          ))}
        </select>
        {error ? <ErrorNote error={error} /> : null}
        <div class="actions">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="primary">
            Create volume
          </button>
        </div>
      </form>
    </Dialog>
  );
}

interface TextFieldProps {
  id: string;
  label: ComponentChildren;
  value: string;
  required?: boolean;
  onInput(value: string): void;
}

function TextField({ id, label, value, required, onInput }: TextFieldProps) {
  return (
    <>
      <label for={id}>{label}</label>
      <input
        id={id}
        required={required}
        autocomplete="off"
        value={value}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
    </>
  );
}
