// The limits of quotas, and what is used of them, as bars.
import type { Quota } from "./api";
import { amount, quantity } from "./format";
import { Bar } from "./parts";

// The limits of each quota, by namespace and name.
export function limitsOf(quotas: Quota[]): [key: string, limits: Quota[]][] {
  const groups = new Map<string, Quota[]>();
  for (const limit of quotas) {
    const key = `${limit.namespace}/${limit.quota}`;
    groups.set(key, [...(groups.get(key) ?? []), limit]);
  }
  return [...groups];
}

// What tasks use up, without counts of other objects.
export const isOfTasks = ({ resource }: Quota) => /^(pods|cpu|memory|(requests|limits)\..+)$/.test(resource);

export function Limits({ limits }: { limits: Quota[] }) {
  return (
    <ul class="bars">
      {limits.map(({ resource, used, hard }) => {
        const text = `${amount(resource, used)}/${amount(resource, hard)}`;
        return (
          <li key={resource}>
            <span class="bar-name">{resource}</span>
            <Bar
              used={quantity(used) ?? 0}
              total={quantity(hard) ?? 0}
              label={`${resource}: ${text.replace("/", " of ")} used`}
            />
            <span class="number">{text}</span>
          </li>
        );
      })}
    </ul>
  );
}
