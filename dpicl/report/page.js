// Sorting by a column's head, filtering rows and folds by words, and links that open what they lead to.
'use strict';
const UNITS = {min: 60, h: 3600};

function number(text) {
  const [, digits, unit] = /^([+-]?(?:[\d.,]+|∞))(?:\s([a-z]+)$)?/.exec(text.trim().replace('−', '-')) ?? [];
  return digits === undefined ? NaN : Number(digits.replaceAll(',', '').replace('∞', 'Infinity')) * (UNITS[unit] ?? 1);
}

function sorted(rows, place, down) {
  const keyed = rows.map(row => ({row, text: row.cells[place].textContent, value: number(row.cells[place].textContent)}));
  const numeric = keyed.some(one => !isNaN(one.value)) && keyed.every(one => !isNaN(one.value) || /^[–\s]*$/.test(one.text));
  keyed.sort((a, b) => {
    if (!numeric) return (down ? -1 : 1) * a.text.localeCompare(b.text, 'en', {numeric: true});
    if (isNaN(a.value) || isNaN(b.value)) return isNaN(a.value) - isNaN(b.value);  // what is not defined comes last, either way
    return down ? b.value - a.value : a.value - b.value;
  });
  return keyed.map(one => one.row);
}

function sortable(table) {
  const [body] = table.tBodies, heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, place) => {
    const button = document.createElement('button');
    button.append(...head.childNodes);
    if (!button.textContent.trim()) button.setAttribute('aria-label', 'name');
    head.append(button);
    button.addEventListener('click', () => {
      const down = head.ariaSort === 'ascending';
      heads.forEach(one => one.removeAttribute('aria-sort'));
      head.ariaSort = down ? 'descending' : 'ascending';
      body.append(...sorted([...body.rows], place, down));
    });
  });
}

const folded = text => text.toLowerCase().replace(/\s*=\s*/g, '=');

// A field before an element that hides every one of these whose text lacks one of the words.
function filter(before, label, entries) {
  const line = document.createElement('p'), field = document.createElement('input'), count = document.createElement('output');
  line.className = 'filter';
  Object.assign(field, {type: 'search', placeholder: 'Filter', ariaLabel: label});
  line.append(field, count);
  before.before(line);
  field.addEventListener('input', () => {
    const words = folded(field.value).split(/\s+/);
    for (const one of entries) one.element.hidden = !words.every(word => folded(one.text).includes(word));
    for (const one of entries) if (one.parts) one.element.hidden = one.parts.every(part => part.hidden);
    const all = entries.filter(one => !one.parts);
    count.textContent = field.value ? `${all.filter(one => !one.element.hidden).length} of ${all.length}` : '';
  });
}

for (const table of document.querySelectorAll('table')) {
  const rows = [...table.tBodies[0].rows];
  if (rows.length > 2) sortable(table);
  if (rows.length > 11) filter(table.parentElement, `Filter rows: ${table.parentElement.ariaLabel}`, rows.map(row => ({element: row, text: row.textContent})));
}

for (const section of document.querySelectorAll('section')) {
  const entries = [];
  let heading = null;
  for (const element of section.children) {
    if (element.tagName === 'H3') entries.push(heading = {element, text: '', parts: []});
    else if (element.querySelector('h3')) heading = null;  // a fold with headings of its own
    else if (heading) {
      heading.parts.push(element);
      entries.push({element, text: `${heading.element.textContent} ${element.querySelector('summary')?.textContent ?? ''}`});
    }
  }
  if (entries.length > 8) filter(entries[0].element, `Filter ${section.querySelector('h2').textContent}`, entries);
}

// Says of what is wider than its box that it can be scrolled.
const boxes = new ResizeObserver(seen => {
  for (const {target} of seen) target.classList.toggle('scrolls', target.scrollWidth > target.clientWidth + 1);
});
for (const box of document.querySelectorAll('.scroll')) boxes.observe(box);

function reveal() {
  for (let at = document.getElementById(decodeURIComponent(location.hash.slice(1))); at; at = at.parentElement) if (at.tagName === 'DETAILS') at.open = true;
}
addEventListener('hashchange', reveal);
reveal();
