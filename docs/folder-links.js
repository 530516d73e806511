// Links to the folder of a study open its verdicts, because a web server may not list folders.
for (const link of document.querySelectorAll('main a[href$="/"]')) {
  if (!link.getAttribute("href").includes("://")) link.href += "verdicts.json";
}
