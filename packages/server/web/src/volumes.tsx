// Volumes: list, create, delete.
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
  const remove = async (volume: Volume) => {
    const path = url(`/volumes/${encodeURIComponent(volume.volume_id)}`, { namespace: volume.metadata.namespace });
    announce((await request<{ message: string }>("DELETE", path)).message);
    load();
  };
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
                <tr key={volume.volume_id}>
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
                    {(!allUsers || volume.username === user.user) && (
                      <button type="button" class="small" onClick={() => setDeleting(volume)}>
                        Delete
                        <span class="visually-hidden">
                          {" "}
                          {volume.name} {volume.volume_id}
                        </span>
                      </button>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {creating && <Create onClose={() => setCreating(false)} onCreated={load} />}
      {deleting && (
        <Confirm
          title={`Delete volume ${deleting.name}?`}
          text={`This deletes PVC ${deleting.metadata.pvc_name} (${deleting.size}) and the data in it.`}
          action="Delete volume"
          run={() => remove(deleting)}
          onClose={() => setDeleting(null)}
        />
      )}
    </>
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
  return (
    <Dialog title="Create a volume" onClose={onClose}>
      <form onSubmit={create} class="fields">
        <label for="volume-name">Name</label>
        <input
          id="volume-name"
          required
          autocomplete="off"
          value={name}
          onInput={(event) => setName(event.currentTarget.value)}
        />
        <label for="volume-size">Size</label>
        <input
          id="volume-size"
          required
          autocomplete="off"
          value={size}
          onInput={(event) => setSize(event.currentTarget.value)}
        />
        <label for="volume-class">
          StorageClass <span class="muted">(default: the cluster's)</span>
        </label>
        <input
          id="volume-class"
          autocomplete="off"
          value={storageClass}
          onInput={(event) => setStorageClass(event.currentTarget.value)}
        />
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
