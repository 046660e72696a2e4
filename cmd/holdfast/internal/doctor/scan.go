package doctor

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// examples is how many keys are named at the most.
const examples = 5

// A sweep goes through keys.
type sweep struct {
	seen int64 // that were looked at
	bad  int64
	some []string // of the bad ones
	cut  bool     // the time was over first

	unread int64    // that the user may not read
	lacks  []string // commands that it would need for them; of the others it may not read the keys
}

func (s *sweep) add(name string) {
	s.bad++
	if len(s.some) < examples {
		s.some = append(s.some, cli.Safe(name))
	}
}

func (s *sweep) list() string {
	text := strings.Join(s.some, ", ")
	if s.bad > int64(len(s.some)) {
		text += ", …"
	}
	return text
}

// How a server names a command that it refuses, and how it says that what a key is, or where, has changed
// since it was listed.
var (
	theCommand = regexp.MustCompile(`'([^' ]+)' command`)
	changed    = regexp.MustCompile(`^(WRONGTYPE|MOVED|ASK) `)
)

// passed passes over a key that the user may not read, or that is another by now. It returns all other errors.
func (s *sweep) passed(err error) error {
	switch {
	case denied(err):
		s.unread++
		if command := theCommand.FindStringSubmatch(plain(err)); command != nil {
			s.lacks = append(s.lacks, "+"+command[1])
		}
	case !refused(err) || !changed.MatchString(plain(err)):
		return err
	}
	return nil
}

// told adds to a finding what was not looked at.
func (s *sweep) told(d *doctor, f finding) finding {
	var meaning, fix []string
	if s.cut {
		f.Found += fmt.Sprintf("; cut short after %s, with %d looked at", d.q.scan, s.seen)
		meaning = append(meaning, "There may be some among the others.")
		fix = append(fix, fmt.Sprintf("Give it more time: --scan %s, or 0 to leave it out.", 10*d.q.scan))
	}
	if s.unread > 0 {
		f.Found += fmt.Sprintf("; %s could not be read for want of rights", cli.Plural(s.unread, "key"))
		if len(s.lacks) > 0 {
			meaning = append(meaning, "There may be some among those.")
			lacks := slices.Compact(slices.Sorted(slices.Values(s.lacks)))
			fix = append(fix, fmt.Sprintf("Run the doctor as an administrator, or grant %s to the user it runs as.", strings.Join(lacks, " ")))
		} else {
			meaning = append(meaning, "Keys that no rule of the user's names are no locks of its own.")
			fix = append(fix, "To have those looked at, too, run the doctor as an administrator.")
		}
	}
	if f.Status != statusOK || len(fix) == 0 {
		return f
	}
	return note("%s", f.Found).means("%s", strings.Join(meaning, " ")).fix("%s", strings.Join(fix, " "))
}

// walk gives all keys of a type to look, in portions, until the time is over.
func (d *doctor) walk(ctx context.Context, n *node, s *sweep, kind, match string, look func(context.Context, []string) error) error {
	ctx, cancel := context.WithTimeout(ctx, d.q.scan)
	defer cancel()
	const portion = 500
	for cursor := uint64(0); ; {
		b := n.client.B().Scan().Cursor(cursor).Match(match).Count(portion).Type(kind).Build()
		entry, err := n.client.Do(ctx, b).AsScanEntry()
		if err == nil && len(entry.Elements) > 0 {
			err = look(ctx, entry.Elements)
			s.seen += int64(len(entry.Elements))
		}
		switch {
		case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
			s.cut = true
			return nil
		case err != nil:
			return err
		case entry.Cursor == 0:
			return nil
		}
		cursor = entry.Cursor
	}
}

// isLock reports whether a hash with these fields and values is a lock. One other field, and it is somebody's
// data, which a time to live would destroy.
func isLock(flat []string) bool {
	held := false
	for i := 0; i+1 < len(flat); i += 2 {
		field, value := flat[i], flat[i+1]
		if field == wire.ModeField && (value == wire.ModeRead || value == wire.ModeWrite) {
			continue
		}
		if _, held = wire.ParseHold(field, value); !held {
			return false
		}
	}
	return held
}

// withoutTTL looks for locks that nothing ends.
func withoutTTL(ctx context.Context, d *doctor, n *node) finding {
	if d.q.scan == 0 {
		return finding{}
	}
	var s sweep
	err := d.walk(ctx, n, &s, "hash", "*", func(ctx context.Context, names []string) error {
		var asked rueidis.Commands
		for _, name := range names {
			asked = append(asked, n.client.B().Pttl().Key(name).Build())
		}
		for i, answer := range n.client.DoMulti(ctx, asked...) {
			ttl, err := answer.AsInt64()
			if err != nil || ttl != -1 {
				if err := s.passed(err); err != nil {
					return err
				}
				continue
			}
			const fields = 20
			entry, err := n.client.Do(ctx, n.client.B().Hscan().Key(names[i]).Cursor(0).Count(fields).Build()).AsScanEntry()
			if err := s.passed(err); err != nil {
				return err
			}
			if isLock(entry.Elements) {
				s.add(names[i])
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return unknown("whether there are locks without a time to live", "+scan, and all keys,", err)
	case s.bad > 0:
		return s.told(d, fail("%s without a time to live: %s", cli.Plural(s.bad, "lock"), s.list()).
			means("Neither Redisson nor this toolkit leaves a lock so. If its holder dies nobody ever gets it.").
			fix("redis-cli PEXPIRE NAME %d: a holder that lives and renews it keeps it, of one that is gone it runs out. "+
				"A holder with a lease of its own does not renew it: give that one the time it needs. holdfast show NAME says who it is. "+
				"Then find out who sent PERSIST, or restored the key without its TTL.", max(time.Minute, d.q.lease).Milliseconds()))
	}
	return s.told(d, okay("no lock without a time to live"))
}
