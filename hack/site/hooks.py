"""What mkdocs does differently from GitHub, for which the documents are written (mkdocs.yml)."""
import os
import posixpath
import re


def on_config(config):
    """An entry of nav that ends with a slash is all pages of that folder."""
    for section in config["nav"]:
        for name, entries in section.items():
            if isinstance(entries, list):
                section[name] = [e for entry in entries for e in expand(config["docs_dir"], entry)]
    return config


def expand(docs, entry):
    if not isinstance(entry, dict):
        return [entry]
    (name, path), = entry.items()
    if not isinstance(path, str) or not path.endswith("/"):
        return [entry]
    pages = sorted(f for f in os.listdir(os.path.join(docs, path)) if f.endswith(".md"))
    return [{name: [path + page for page in pages]}]


def on_page_markdown(markdown, page, config, files):
    """Links to files outside of docs/ lead to the repository, and what belongs to an item of a list is indented by four."""
    here = posixpath.dirname(page.file.src_path)
    repository = config["repo_url"] + "/blob/main/"

    def outside(match):
        target = posixpath.normpath(posixpath.join("docs", here, match[1]))
        if target.startswith("docs/") and not os.path.isdir(target):
            return match[0]
        return "](" + repository + target + (match[2] or "") + ")"

    markdown = re.sub(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)]*)?\)", outside, markdown)
    lines, item, fence = [], False, None
    for line in markdown.split("\n"):
        indent = len(line) - len(line.lstrip(" "))
        if fence is not None:
            lines.append(" " * (fence and 4 - fence) + line if line.strip() else line)
            if line.strip() == "```":
                fence = None
            continue
        if re.match(r"([0-9]+\.|-) ", line):
            item = True
        elif line.strip() and indent == 0:
            item = False
        if line.lstrip().startswith("```"):
            fence = indent if item and indent in (2, 3) else 0
        if item and indent in (2, 3):
            line = " " * 4 + line.lstrip(" ")
        lines.append(line)
    return "\n".join(lines)
