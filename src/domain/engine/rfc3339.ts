// Times as RFC 3339 texts, by arithmetic alone: the domain reads no clock and no time zone.

const pattern =
  /^(\d{4})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?(?:([Zz])|([+-])(\d{2}):(\d{2}))$/;

/** Milliseconds since 1970, or undefined when the text is not a time with an offset. */
export function parseTime(text: string): number | undefined {
  const match = pattern.exec(text);
  if (match === null) return undefined;
  const at = (index: number) => Number(match[index] ?? 0);
  const [year, month, day, hour, minute, second] = [at(1), at(2), at(3), at(4), at(5), at(6)];
  if (month < 1 || month > 12 || day < 1 || day > daysInMonth({ year, month })) return undefined;
  // 60 is a leap second.
  if (hour > 23 || minute > 59 || second > 60 || at(10) > 23 || at(11) > 59) return undefined;
  const fractionMs = Math.floor(Number(`0.${match[7] ?? "0"}`) * 1_000);
  const offsetMinutes = (match[9] === "-" ? -1 : 1) * (at(10) * 60 + at(11));
  const days = daysSinceEpoch({ year, month, day });
  return ((days * 24 + hour) * 60 + minute - offsetMinutes) * 60_000 + second * 1_000 + fractionMs;
}

/** `2026-11-15T08:40:00.250Z`. */
export function formatTime(ms: number): string {
  const whole = Math.floor(ms);
  const days = Math.floor(whole / 86_400_000);
  const inDay = whole - days * 86_400_000;
  const { year, month, day } = dateOf(days);
  const time = [
    Math.floor(inDay / 3_600_000),
    Math.floor(inDay / 60_000) % 60,
    Math.floor(inDay / 1_000) % 60,
  ];
  const clock = time.map((part) => padded(part, 2)).join(":");
  return `${padded(year, 4)}-${padded(month, 2)}-${padded(day, 2)}T${clock}.${padded(inDay % 1_000, 3)}Z`;
}

const padded = (value: number, width: number): string => String(value).padStart(width, "0");

function daysInMonth({ year, month }: { readonly year: number; readonly month: number }): number {
  if (month === 2) return (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0 ? 29 : 28;
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31;
}

type CalendarDay = { readonly year: number; readonly month: number; readonly day: number };

/** Howard Hinnant's civil calendar: years that begin in March make leap days the last of their year. */
export function daysSinceEpoch({ year, month, day }: CalendarDay): number {
  const shifted = month <= 2 ? year - 1 : year;
  const era = Math.floor(shifted / 400);
  const yearOfEra = shifted - era * 400;
  const dayOfYear = Math.floor((153 * (month + (month > 2 ? -3 : 9)) + 2) / 5) + day - 1;
  const dayOfEra = yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + dayOfYear;
  return era * 146_097 + dayOfEra - 719_468;
}

export function dateOf(daysSince1970: number): CalendarDay {
  const days = daysSince1970 + 719_468;
  const era = Math.floor(days / 146_097);
  const dayOfEra = days - era * 146_097;
  const yearOfEra = Math.floor(
    (dayOfEra -
      Math.floor(dayOfEra / 1_460) +
      Math.floor(dayOfEra / 36_524) -
      Math.floor(dayOfEra / 146_096)) /
      365,
  );
  const dayOfYear = dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const shiftedMonth = Math.floor((5 * dayOfYear + 2) / 153);
  const month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9;
  const day = dayOfYear - Math.floor((153 * shiftedMonth + 2) / 5) + 1;
  return { year: yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day };
}
