package interop_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/entry"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/kit"
)

// entryKinds are what an entry has, by the halves of its read-write lock.
var entryKinds = []kind{plain, fair, reading, writing, semaphores, expirables, latches}

// keyed is an entry to both sides, whatever its map is called.
type keyed struct {
	java   interop.Entry
	golang func(object string, k kind) string // the name of what it has of a kind
}

// keyOf is a key of a type and with a codec that Java has by these names.
func keyOf[K any](codec, typ string, key K, encode func(K) []byte) keyed {
	text := fmt.Sprint(key)
	if typ == "uuid" {
		text = someUUID
	}
	return keyed{
		interop.Entry{Of: "map", Codec: codec, Type: typ, Key: text},
		func(object string, k kind) string {
			switch k.name {
			case plain.name:
				return entry.Lock(object, key, encode)
			case fair.name:
				return entry.FairLock(object, key, encode)
			case semaphores.name:
				return entry.Semaphore(object, key, encode)
			case expirables.name:
				return entry.PermitExpirableSemaphore(object, key, encode)
			case latches.name:
				return entry.CountDownLatch(object, key, encode)
			default:
				return entry.ReadWriteLock(object, key, encode)
			}
		},
	}
}

const someUUID = "0f8fad5b-d9cb-469f-a165-70867728950e"

var uuidBytes = [16]byte{0x0f, 0x8f, 0xad, 0x5b, 0xd9, 0xcb, 0x46, 0x9f, 0xa1, 0x65, 0x70, 0x86, 0x77, 0x28, 0x95, 0x0e}

// of is the entry where the object is of that sort and has that name.
func (k keyed) of(object, name string) interop.Entry {
	k.java.Of, k.java.Name = object, name
	return k.java
}

// keysOfAllSorts are keys on both sides of whatever a codec distinguishes.
func keysOfAllSorts() (all []keyed) {
	var low strings.Builder
	for c := range rune(0x180) {
		low.WriteRune(c)
	}
	texts := []string{
		"", "a", "anna", "ключ", "鍵🔒", "one|two", "\x00", "a\x00b", "\u2028</x>&'\"\\", "\ufffd\uffff", low.String(),
	}
	for _, length := range []int{2, 31, 32, 33, 62, 63, 64, 8190, 8191, 8192, 20_000} {
		texts = append(texts, strings.Repeat("x", length), strings.Repeat("é", length), strings.Repeat("x🔒", length))
	}
	for _, text := range texts {
		all = append(all,
			keyOf("string", "string", text, entry.StringCodec), keyOf("json", "string", text, entry.JsonJacksonCodec),
			keyOf("kryo5", "string", text, entry.Kryo5Codec), keyOf("default", "string", text, entry.Kryo5Codec))
	}
	for bit := range 64 {
		for _, n := range []int64{1 << bit, 1<<bit - 1, -1 << bit, -1<<bit - 1} {
			all = append(all,
				keyOf("string", "long", n, entry.StringCodec), keyOf("long", "long", n, entry.LongCodec),
				keyOf("json", "long", n, entry.JsonJacksonCodec), keyOf("kryo5", "long", n, entry.Kryo5Codec))
			if i := int32(n); int64(i) == n {
				all = append(all,
					keyOf("string", "integer", i, entry.StringCodec), keyOf("json", "integer", i, entry.JsonJacksonCodec),
					keyOf("kryo5", "integer", i, entry.Kryo5Codec))
			}
		}
	}
	return append(all,
		keyOf("string", "uuid", uuidBytes, entry.StringCodec), keyOf("kryo5", "uuid", uuidBytes, entry.Kryo5Codec))
}

// Both sides have the same names for what the entries of maps have, whatever the key, and the values of sets and the
// keys of multimaps.
func TestEntryNames(t *testing.T) {
	t.Parallel()
	s := alone(t)
	t.Run("keys", func(t *testing.T) { requireNamesOfAllKeys(t, s) })
	few := []keyed{
		keyOf("default", "string", "anna", entry.Kryo5Codec), keyOf("json", "long", int64(42), entry.JsonJacksonCodec),
	}
	for _, object := range []string{"map", "mapcache", "set", "setcache", "setmultimap", "listmultimap"} {
		t.Run(object, func(t *testing.T) {
			for _, k := range few {
				requireEntryNames(t, s.fleet(fleetOptions{}), object, object, k, entryKinds...)
			}
		})
	}
	for _, prefix := range []string{"prod:", "{prod}:"} {
		t.Run("mapper, "+prefix, func(t *testing.T) {
			requireEntryNames(t, s.fleet(fleetOptions{prefix: prefix}), "map", "users", few[0], entryKinds...)
		})
	}
	t.Run("names", func(t *testing.T) {
		for _, name := range []string{"users:42", "{shop}:users", "users{42}", "one{brace", "one}brace", "замок"} {
			requireEntryNames(t, s.fleet(fleetOptions{}), "map", name, few[0], entryKinds...)
		}
	})
}

func requireNamesOfAllKeys(t *testing.T, s *site) {
	t.Helper()
	thread := s.fleet(fleetOptions{}).client.Thread(t, "namer")
	keys := keysOfAllSorts()
	var calls []*interop.Call // all are under way before the first answer is looked at
	for _, k := range keys {
		calls = append(calls, thread.Object(interop.RLock, k.of("map", "users").String()).Start("getName"))
	}
	for i, k := range keys {
		require.Equal(t, k.golang("users", plain), calls[i].OK(t).Value, "%.200q", k.of("map", "users").String())
	}
}

// requireEntryNames wants both sides to have the same names for what an entry has of some kinds.
func requireEntryNames(t *testing.T, f *fleet, object, name string, k keyed, kinds ...kind) {
	t.Helper()
	thread := f.client.Thread(t, "namer")
	for _, kind := range kinds {
		words := k.of(object, name).String()
		got := thread.Object(javaKind(kind), words).Do(t, "getName").Value
		require.Equal(t, k.golang(f.options.prefix+name, kind), got, "%s of %.200q", kind.name, words)
	}
}

// javaKind is the kind to Java, also of what is no lock.
func javaKind(k kind) interop.Kind {
	switch k.name {
	case semaphores.name:
		return interop.Semaphore
	case expirables.name:
		return interop.Expirable
	case latches.name:
		return interop.Latch
	default:
		return k.java
	}
}

// What one side has of an entry the other cannot take, and is woken when it is released.
func TestEntriesAreShared(t *testing.T) {
	t.Parallel()
	s := alone(t)
	objects := []string{"map", "set", "setmultimap"}
	for i, k := range sharedKeys() {
		object := objects[i%len(objects)]
		t.Run(fmt.Sprintf("%s, %s, %s", object, k.java.Codec, k.java.Type), func(t *testing.T) {
			requireSharedEntry(t, s.fleet(fleetOptions{}), object, k, entryKinds)
		})
	}
	t.Run("mapper", func(t *testing.T) {
		k := keyOf("default", "string", "anna", entry.Kryo5Codec)
		requireSharedEntry(t, s.fleet(fleetOptions{prefix: "prod:"}), "map", k, entryKinds)
	})
}

// sharedKeys are one of each type and codec.
func sharedKeys() []keyed {
	n := namesUsed.Add(1)
	text := strconv.FormatInt(n, 10)
	return []keyed{
		keyOf("default", "string", text, entry.Kryo5Codec), keyOf("default", "long", n, entry.Kryo5Codec),
		keyOf("json", "string", text, entry.JsonJacksonCodec), keyOf("json", "long", n, entry.JsonJacksonCodec),
		keyOf("string", "string", text, entry.StringCodec), keyOf("long", "long", n, entry.LongCodec),
	}
}

// requireSharedEntry wants what an entry has of some kinds to be one to both sides.
func requireSharedEntry(t *testing.T, f *fleet, object string, k keyed, kinds []kind) {
	t.Helper()
	for _, c := range cells(kinds...) {
		t.Run(c.name, func(t *testing.T) {
			name := unique("m")
			c.first, c.second = c.first.ofEntry(k.of(object, name)), c.second.ofEntry(k.of(object, name))
			requireShared(t, f, c, k.golang(f.options.prefix+name, c.kind))
		})
	}
}

// ofEntry is the language where Java gets everything from an entry, and Go by the name.
func (l language) ofEntry(e interop.Entry) language {
	if l.name == golang.name {
		return l
	}
	words := e.String()
	l.owner = func(t *testing.T, f *fleet, k kind, _ string) owner { return java.owner(t, f, k, words) }
	l.pool = func(t *testing.T, f *fleet, _ string) pool { return java.pool(t, f, words) }
	l.expirable = func(t *testing.T, f *fleet, _ string) expirable { return java.expirable(t, f, words) }
	l.gate = func(t *testing.T, f *fleet, _ string) gate { return java.gate(t, f, words) }
	return l
}

// While Java computes the entry of a map, it has its lock. Go, who has it first, keeps that waiting.
func TestJavaComputesUnderTheLockOfTheEntry(t *testing.T) {
	f := newFleet(t, fleetOptions{})
	lock := rlock.New(f.session, entry.Lock("users", "anna", entry.Kryo5Codec), nil)
	thread := f.client.Thread(t, "computer")
	for _, call := range [][]any{
		{"computeIfAbsent", "anna", "1"},
		{"computeIfPresent", "anna", "2"},
		{"compute", "anna", "3"},
		{"merge", "anna", "x", "4"},
	} {
		t.Run(call[0].(string), func(t *testing.T) {
			hold, err := lock.TryLock(t.Context())
			require.NoError(t, err)
			computing := thread.Object(interop.Map, "users").Start(call[0].(string), call[1:]...)
			kit.Await(t, "Java waits for the lock", func() bool { return thread.Asleep(t) })
			select {
			case <-computing.Done():
				t.Fatal("it computed what another has locked")
			default:
			}
			require.NoError(t, hold.Release())
			require.Equal(t, call[len(call)-1], computing.OK(t).Value)
		})
	}
}
