package inspect

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/internal/cluster"
	"github.com/redis/rueidis"
)

// How many keys a server is to look at for one answer: few if it sends them all, more if it sends
// only those of a pattern.
const (
	pageOfAll     = 250
	pageOfPattern = 1000
)

// A walk goes through all names once.
type walk struct {
	reader *reader
	glob   string // "": all

	noRights int // how many keys could not be read for want of rights
}

// run yields the objects as they are found, in no order. A name that is there all the while is among
// them at least once. It is told once unless a server hands it out again more than fifty
// thousand names later, which SCAN may do while its table of keys grows or shrinks: the names told
// are not all kept in mind. A node of a cluster that cannot be asked does not keep the others from it;
// the error then says which ones those are.
func (w *walk) run(ctx context.Context, yield func([]*Object) error) error {
	nodes, err := masters(ctx, w.reader.client)
	if err != nil {
		return err
	}
	var enough error // what yield has said
	told := newRecent()
	once := func(objects []*Object) error {
		enough = yield(slices.DeleteFunc(objects, func(o *Object) bool { return !told.add(o.Name) }))
		return enough
	}
	var away []error
	for _, addr := range slices.Sorted(maps.Keys(nodes)) {
		err := w.scanAll(ctx, nodes[addr], once)
		switch {
		case err == nil:
		case enough != nil, ctx.Err() != nil, denied(err), len(nodes) == 1:
			return err
		default:
			away = append(away, fmt.Errorf("%s could not be asked: %w", addr, err))
		}
	}
	return errors.Join(away...)
}

// scanAll goes through the keys of a node that are names, or stand beside one.
func (w *walk) scanAll(ctx context.Context, node rueidis.Client, yield func([]*Object) error) error {
	others := []string{queuePrefix, writersPrefix}
	if w.reader.others {
		others = append(others, tokensPrefix)
	}
	for _, match := range patterns(w.glob, others...) {
		if err := w.scan(ctx, node, match, yield); err != nil {
			return err
		}
	}
	return nil
}

// scan goes through the keys of a node that match.
func (w *walk) scan(ctx context.Context, node rueidis.Client, match string, yield func([]*Object) error) error {
	for cursor := uint64(0); ; {
		page, err := scanPage(ctx, node, cursor, match)
		if err != nil {
			return err
		}
		objects, noRights, err := w.reader.read(ctx, page.Elements)
		w.noRights += noRights
		if err != nil {
			return err
		}
		if len(objects) > 0 {
			if err := yield(objects); err != nil {
				return err
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			return nil
		}
	}
}

func scanPage(ctx context.Context, node rueidis.Client, cursor uint64, match string) (rueidis.ScanEntry, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	command := node.B().Scan().Cursor(cursor).Count(pageOfAll).Build()
	if match != "" {
		command = node.B().Scan().Cursor(cursor).Match(match).Count(pageOfPattern).Build()
	}
	return node.Do(ctx, command).AsScanEntry()
}

// masters are the nodes that have the keys, by address. In a cluster some of those known may be replicas.
func masters(ctx context.Context, client rueidis.Client) (map[string]rueidis.Client, error) {
	known := client.Nodes()
	if client.Mode() == rueidis.ClientModeCluster {
		if err := dropReplicas(ctx, client, known); err != nil {
			return nil, err
		}
	}
	return known, nil
}

// dropReplicas leaves out the nodes that are replicas and masters of no slot.
func dropReplicas(ctx context.Context, client rueidis.Client, known map[string]rueidis.Client) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ranges, err := cluster.Slots(ctx, client, func(f func()) { go f() })
	if err != nil {
		return err
	}
	masters := map[string]bool{}
	for _, r := range ranges {
		masters[r.Nodes[0].Addr] = true
	}
	for _, r := range ranges {
		for _, replica := range r.Nodes[1:] {
			if !masters[replica.Addr] {
				delete(known, replica.Addr)
			}
		}
	}
	return nil
}

// A recent remembers the last names, between fifty and a hundred thousand of them, by their hashes.
type recent struct {
	seed           maphash.Seed
	younger, older map[uint64]struct{}
}

const generation = 50_000

func newRecent() *recent {
	return &recent{seed: maphash.MakeSeed(), younger: map[uint64]struct{}{}}
}

// add reports whether the name is new.
func (r *recent) add(name string) bool {
	hash := maphash.String(r.seed, name)
	if _, known := r.younger[hash]; known {
		return false
	}
	if _, known := r.older[hash]; known {
		return false
	}
	if len(r.younger) >= generation {
		r.younger, r.older = map[uint64]struct{}{}, r.younger
	}
	r.younger[hash] = struct{}{}
	return true
}
