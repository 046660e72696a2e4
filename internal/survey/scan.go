package survey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/cluster"
	"github.com/holdfast-go/holdfast/internal/refusal"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Walk goes through all names that a glob matches, all there are if it is "", and yields the objects as
// they are found, in no order. It returns how many keys the user may not read. A name that is there
// all the while is among the objects at least once. It is told once unless a server hands it out again
// more than fifty thousand names later, which SCAN may do while its table of keys grows or shrinks: not
// all names are kept in mind. If a node of a cluster cannot be asked, Walk asks the others and then
// returns an error that names it.
func (r *Reader) Walk(ctx context.Context, glob string, yield func([]*Object) error) (denied int, err error) {
	nodes, failed, err := masters(ctx, r.client)
	if err != nil {
		return 0, err
	}
	var enough error // what yield has said
	told := newRecent()
	once := func(objects []*Object) error {
		objects = slices.DeleteFunc(objects, func(o *Object) bool { return !told.add(o.Name) })
		if enough == nil && len(objects) > 0 {
			enough = yield(objects)
		}
		return enough
	}
	var away []error
	for _, addr := range failed {
		away = append(away, fmt.Errorf("%s could not be asked: %w", addr, cluster.ErrFailed))
	}
	for _, addr := range slices.Sorted(maps.Keys(nodes)) {
		for _, pattern := range r.patterns(glob) {
			err := Keys(ctx, nodes[addr], pattern, "", func(keys []string) error {
				objects, n, err := r.read(ctx, keys)
				denied += n
				if err == nil {
					err = once(objects)
				}
				return err
			})
			if enough != nil || err != nil && (ctx.Err() != nil || refusal.Denied(err) || len(nodes) == 1) {
				return denied, err
			}
			if err != nil {
				away = append(away, fmt.Errorf("%s could not be asked: %w", addr, err))
				break
			}
		}
	}
	return denied, errors.Join(away...)
}

// patterns are the globs over keys whose names a glob matches. All but the first find names that are free, and waited
// for or fenced.
func (r *Reader) patterns(glob string) []string {
	all := []string{glob}
	for _, k := range wire.Keys {
		if glob != "" && k.Role > wire.Beside && (k.Role != wire.Token || r.others) {
			all = append(all, k.Globs(glob)...)
		}
	}
	return all
}

// Literal is a glob that matches the text alone.
func Literal(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}

// Names are some names that begin so and are wanted, a few more than most at the most.
func Names(
	ctx context.Context, client rueidis.Client, begin string, wanted func(string) bool, most int,
) (names []string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, _ = Overview(client, false).Walk(ctx, Literal(begin)+"*", func(objects []*Object) error {
		for _, o := range objects {
			if wanted(o.Name) {
				names = append(names, o.Name)
			}
		}
		if len(names) >= most {
			cancel()
		}
		return nil
	})
	return names
}

// Keys goes through the keys of a node that a glob matches, all there are if it is "", and yields them in portions.
// If typ is not "" it yields only keys of that type.
func Keys(ctx context.Context, node rueidis.Client, glob, typ string, yield func([]string) error) error {
	for cursor := uint64(0); ; {
		page, err := scanPage(ctx, node, cursor, glob, typ)
		if err == nil && len(page.Elements) > 0 {
			err = yield(page.Elements)
		}
		if cursor = page.Cursor; err != nil || cursor == 0 {
			return err
		}
	}
}

func scanPage(
	ctx context.Context, node rueidis.Client, cursor uint64, glob, typ string,
) (rueidis.ScanEntry, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	count := "250" // keys that the server looks at, and sends if nothing filters them
	if glob+typ != "" {
		count = "1000"
	}
	scan := node.B().Arbitrary("SCAN", strconv.FormatUint(cursor, 10), "MATCH", cmp.Or(glob, "*"), "COUNT", count)
	if typ != "" {
		scan = scan.Args("TYPE", typ)
	}
	return node.Do(ctx, scan.ReadOnly()).AsScanEntry()
}

// masters returns the nodes that the client knows, except replicas and masters without slots in a cluster; and the
// masters that it does not know, as they have failed.
func masters(ctx context.Context, client rueidis.Client) (known map[string]rueidis.Client, failed []string, err error) {
	if client.Mode() != rueidis.ClientModeCluster {
		return client.Nodes(), nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	slots, err := cluster.Slots(ctx, client, func(f func()) { go f() })
	known = client.Nodes() // afterwards: it may have known none before
	failed = slots.Without(known)
	maps.DeleteFunc(known, func(addr string, _ rueidis.Client) bool {
		return slots.MasterOf(addr) != "" && !slots.Has(addr, 0, wire.Slots)
	})
	return known, failed, err
}

// A recent remembers the last names, between fifty and a hundred thousand of them, by their hashes.
type recent struct {
	seed           maphash.Seed
	younger, older map[uint64]bool
}

const generation = 50_000

func newRecent() *recent { return &recent{seed: maphash.MakeSeed(), younger: map[uint64]bool{}} }

// add reports whether the name is new.
func (r *recent) add(name string) bool {
	hash := maphash.String(r.seed, name)
	if r.younger[hash] || r.older[hash] {
		return false
	}
	if len(r.younger) >= generation {
		r.younger, r.older = map[uint64]bool{}, r.younger
	}
	r.younger[hash] = true
	return true
}
