// Measures a page that an iframe shows, and writes what it found into the page around it.
//
// Colours are compared as WCAG 2.2 does (contrast ratio, success criterion 1.4.3).

const frame = document.querySelector("iframe");

function channels(color) {
  const numbers = color.match(/[0-9.]+/g).map(Number);
  return { rgb: numbers.slice(0, 3), alpha: numbers.length > 3 ? numbers[3] : 1 };
}

function luminance(rgb) {
  const linear = rgb.map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}

function ground(view, element) {
  for (let one = element; one; one = one.parentElement) {
    const { rgb, alpha } = channels(view.getComputedStyle(one).backgroundColor);
    if (alpha === 1) return rgb;
  }
  return [255, 255, 255];
}

function contrast(view, element) {
  const ink = channels(view.getComputedStyle(element).color).rgb;
  const lights = [luminance(ink), luminance(ground(view, element))].sort((a, b) => b - a);
  return (lights[0] + 0.05) / (lights[1] + 0.05);
}

addEventListener("load", () => {
  const page = frame.contentDocument;
  const view = frame.contentWindow;
  for (const details of page.querySelectorAll("details")) details.open = frame.dataset.open === "yes";
  const shows = (element) => element.checkVisibility();
  const sizes = (figure, svgs) =>
    [...figure.querySelectorAll(svgs)].filter(shows).map((svg) => {
      const box = svg.getBoundingClientRect();
      return [Math.round(box.width), Math.round(box.height)];
    });
  const figures = [...page.querySelectorAll("figure")].filter(shows);
  const texts = [...page.querySelectorAll("body *:not(svg *)")].filter((element) =>
    shows(element) && [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()),
  );
  const faint = texts.filter((element) => contrast(view, element) < 4.5);
  const found = {
    inside: page.documentElement.scrollWidth,
    room: page.documentElement.clientWidth,
    loaded: view.performance.getEntriesByType("resource").length,
    drawings: figures.map((figure) => sizes(figure, ".drawing:not(.legend) svg")),
    legends: figures.map((figure) => sizes(figure, ".legend svg")),
    texts: texts.length,
    faint: faint.map((element) => `${element.tagName} ${element.textContent.slice(0, 40)}`),
    blank: [...page.querySelectorAll("use")].filter((use) => shows(use) && use.getBBox().width < 10).length,
    silent: [...page.querySelectorAll("svg[id]")].filter((svg) => !svg.getAttribute("aria-label")).length,
    dark: view.matchMedia("(prefers-color-scheme: dark)").matches,
  };
  const note = document.createElement("pre");
  note.textContent = JSON.stringify(found);
  document.body.append(note);
});
