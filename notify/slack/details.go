package slack

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/regpath/diagnose/notify"
)

// details writes the whole report and all alerts of an incident as messages for
// the thread: text in code blocks, each within the limits of chat.update so that
// it can be edited later.
func details(n notify.Notice) ([]message, error) {
	var b bytes.Buffer
	o := notify.TextOptions{Width: 100, Detail: notify.Full}
	if n.Report != nil {
		if err := notify.Text(&b, *n.Report, o); err != nil {
			return nil, err
		}
	}
	if len(n.Incident.Alerts) > 0 {
		b.WriteByte('\n')
		if err := notify.IncidentText(&b, n.Incident, o); err != nil {
			return nil, err
		}
	}
	pages := paginate(strings.Split(strings.Trim(b.String(), "\n"), "\n"))
	out := make([]message, len(pages))
	for i, p := range pages {
		out[i] = message{text: fmt.Sprintf("Details, part %d of %d\n", i+1, len(pages)) + fence + p + fenceEnd, markup: true}
	}
	return out, nil
}

// page is a message in the thread, and what it says.
type page struct {
	ts, sum string
}

// sum tells what a message says from what another one does.
func (m message) sum() string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(m.text)) // never fails
	return strconv.FormatUint(h.Sum64(), 16)
}

// spellPages writes pages for a receipt, in their order: ts/sum ts/sum.
func spellPages(pages []page) string {
	words := make([]string, len(pages))
	for i, p := range pages {
		words[i] = p.ts + "/" + p.sum
	}
	return strings.Join(words, " ")
}

// pagesOf reads what spellPages wrote. A ts alone, as older receipts have them, is a
// page of which is not known what it says.
func pagesOf(receipt string) []page {
	var pages []page
	for word := range strings.FieldsSeq(receipt) {
		var p page
		p.ts, p.sum, _ = strings.Cut(word, "/")
		pages = append(pages, p)
	}
	return pages
}

// paginate escapes lines and packs them into at most maxPages pages of at most
// budgetPage units. Nothing is lost between pages; what does not fit into the
// last one is counted on it.
func paginate(lines []string) []string {
	var pages []string
	var page strings.Builder
	used := 0
	room := func() int {
		if len(pages) == maxPages-1 {
			return budgetPage - fenceCost - noteRoom
		}
		return budgetPage - fenceCost
	}
	for i, line := range lines {
		for rest := defuse(line); ; {
			e, left := fit(rest, room()-used)
			// A line is split only where a page of its own is too small for it.
			if whole := left == "" && used <= room(); whole || used == 0 {
				page.WriteString(e + "\n")
				used += units(e) + 1
				if left == "" {
					break
				}
				rest = left
			}
			if len(pages) == maxPages-1 {
				fmt.Fprintf(&page, "… %d more lines are left out here; the stored report has them", len(lines)-i)
				return append(pages, page.String())
			}
			pages = append(pages, strings.TrimSuffix(page.String(), "\n"))
			page.Reset()
			used = 0
		}
	}
	return append(pages, strings.TrimSuffix(page.String(), "\n"))
}
