package scripted

import (
	"fmt"
	"strings"
)

// draft is release notes: changes, sorted into sections.
type draft struct{ sections [sectionCount][]string }

const (
	sectionNew = iota
	sectionFixed
	sectionRemoved
	sectionOther
	sectionCount
)

var (
	sectionTitles = [sectionCount]string{"New", "Fixed", "Removed", "Changed"}
	sectionCounts = [sectionCount]string{"new", "fixed", "removed", "changed"}
)

const (
	changesMax = 200 // lines that are used
	changeMax  = 300 // bytes of each
)

// parseChanges reads a list of changes: bullets, or, where there are none, any
// lines that are no headings.
func parseChanges(text string) draft {
	var d draft

	listed := bullets(text) != ""
	used := 0

	for line := range strings.Lines(text) {
		change, ok := bullet(line)
		if !listed {
			change = strings.TrimSpace(line)
			ok = change != "" && change[0] != '#' && change[0] != '['
		}

		if !ok || used == changesMax {
			continue
		}

		used++

		s := section(change)
		d.sections[s] = append(d.sections[s], clip(change, changeMax))
	}

	return d
}

// bullet is the text of a line that begins like an item of a list.
func bullet(line string) (string, bool) {
	line = strings.TrimSpace(line)
	for _, mark := range [...]string{"- ", "* ", "+ ", "• "} {
		if rest, ok := strings.CutPrefix(line, mark); ok {
			rest = strings.TrimSpace(rest)

			return rest, rest != ""
		}
	}

	return "", false
}

// section goes by the first word.
func section(change string) int {
	word, _, _ := strings.Cut(strings.ToLower(change), " ")
	word = strings.Trim(word, ":*_`[]()")

	for i, starts := range [...][]string{
		sectionNew:     {"add", "new", "introduc", "support", "implement", "creat", "allow", "feat"},
		sectionFixed:   {"fix", "repair", "correct", "bug", "resolv", "prevent"},
		sectionRemoved: {"remov", "drop", "delet", "deprecat"},
	} {
		for _, s := range starts {
			if strings.HasPrefix(word, s) {
				return i
			}
		}
	}

	return sectionOther
}

func (d draft) empty() bool {
	for _, changes := range d.sections {
		if len(changes) > 0 {
			return false
		}
	}

	return true
}

// counts says how many changes of which kind there are.
func (d draft) counts() string {
	var parts []string

	for i, changes := range d.sections {
		if len(changes) > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", len(changes), sectionCounts[i]))
		}
	}

	return strings.Join(parts, ", ")
}

func (d draft) markdown() string {
	var b strings.Builder

	b.WriteString("# Release notes\n")

	for i, changes := range d.sections {
		if len(changes) == 0 {
			continue
		}

		b.WriteString("\n## " + sectionTitles[i] + "\n\n")

		for _, change := range changes {
			b.WriteString("- " + change + "\n")
		}
	}

	return b.String()
}
