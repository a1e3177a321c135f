// What is wrong with the page that is open, as a list of sentences.

function parsed(colour) {
  const parts = colour.match(/[\d.]+/g).map(Number);
  return {rgb: parts.slice(0, 3), alpha: parts[3] ?? 1};
}

function over(top, below) {
  return top.rgb.map((one, i) => one * top.alpha + below[i] * (1 - top.alpha));
}

function luminance(rgb) {
  const [r, g, b] = rgb.map(one => one / 255).map(one => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(one, other) {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

function ground(element) {
  const layers = [];
  for (let at = element; at; at = at.parentElement) layers.push(parsed(getComputedStyle(at).backgroundColor));
  return layers.reverse().reduce((below, layer) => over(layer, below), matchMedia('(prefers-color-scheme: dark)').matches ? [0, 0, 0] : [255, 255, 255]);
}

function opacity(element) {
  let product = 1;
  for (let at = element; at; at = at.parentElement) product *= Number(getComputedStyle(at).opacity);
  return product;
}

function named(element) {
  return `<${element.tagName.toLowerCase()}> ${JSON.stringify((element.textContent || element.placeholder || '').trim().slice(0, 40))}`;
}

function shown(element) {
  return element.checkVisibility({visibilityProperty: true}) && element.getClientRects().length > 0;
}

function texts() {
  const own = element => [...element.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim());
  const isText = element => own(element) && !['SCRIPT', 'STYLE', 'TITLE'].includes(element.tagName.toUpperCase());
  return [...document.body.querySelectorAll('*')].filter(element => isText(element) && shown(element));
}

function contrastFaults() {
  const faults = [];
  const check = (element, colour, what) => {
    const below = ground(element), top = parsed(colour);
    const ratio = contrast(over({rgb: top.rgb, alpha: top.alpha * opacity(element)}, below), below);
    if (ratio < 4.5) faults.push(`${what} ${named(element)}: contrast ${ratio.toFixed(2)}`);
  };
  for (const element of texts()) {
    const style = getComputedStyle(element);
    check(element, element instanceof SVGElement ? style.fill : style.color, 'text of');
  }
  for (const element of document.querySelectorAll('input[placeholder]')) check(element, getComputedStyle(element, '::placeholder').color, 'placeholder of');
  return faults;
}

// Where scripts run, a box that is wider than it shows says so.
function layoutFaults(hints = true) {
  const faults = [], root = document.documentElement;
  if (root.scrollWidth > innerWidth) faults.push(`the page is ${root.scrollWidth} px wide in a window of ${innerWidth}`);
  for (const element of texts()) {
    const matrix = element instanceof SVGElement ? element.getScreenCTM() : {a: 1, b: 0};
    const size = parseFloat(getComputedStyle(element).fontSize) * Math.hypot(matrix.a, matrix.b);
    if (size < 9) faults.push(`${named(element)}: letters of ${size.toFixed(1)} px`);
    const clips = getComputedStyle(element).overflowX === 'hidden' && element.scrollWidth > element.clientWidth;
    if (clips) faults.push(`${named(element)}: its text is cut off`);
    const box = element.getBoundingClientRect(), scrolls = element.closest('.scroll');
    // what a box between it and the page cuts off, but one that scrolls
    for (let at = element.parentElement; at && at !== document.body && !at.matches('.scroll'); at = at.parentElement) {
      if (getComputedStyle(at).overflowX !== 'visible' && box.right > at.getBoundingClientRect().right + 1) faults.push(`${named(element)}: cut off by its <${at.tagName.toLowerCase()}>`);
    }
    if (box.left < -1 || (box.right > innerWidth + 1 && !scrolls)) faults.push(`${named(element)}: outside the window`);
  }
  for (const box of document.querySelectorAll('.scroll')) {
    const hint = getComputedStyle(box, '::before').content;
    if (shown(box) && hints && (box.scrollWidth > box.clientWidth + 1) !== hint.includes('Scroll')) faults.push(`${box.ariaLabel}: wider than its box is not what it says`);
  }
  return faults;
}

function focusable() {
  return [...document.querySelectorAll('a[href], button, input, select, summary, [tabindex="0"]')].filter(shown);
}

function focusFault() {
  const element = document.activeElement, style = getComputedStyle(element);
  const visible = element.matches(':focus-visible') && style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1;
  if (!visible) return `${named(element)}: its focus is not visible`;
  const ratio = contrast(parsed(style.outlineColor).rgb, ground(element.parentElement));
  return ratio < 3 ? `${named(element)}: its focus has a contrast of ${ratio.toFixed(2)}` : '';
}

function place() {
  return focusable().indexOf(document.activeElement);
}
