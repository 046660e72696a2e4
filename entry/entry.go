// Package entry has the names of the locks that Redisson has for the entries of a map, the values of a set and the
// keys of a multimap: of RMap.getLock(key), RSet.getSemaphore(value), RMultimap.getFairLock(key) and the like. A
// lock of that name is the very lock that Java has. This is redisson.getMap("users").getLock("anna"):
//
//	lock := rlock.New(session, entry.Lock("users", "anna", entry.Kryo5Codec), nil)
//
// # Codecs
//
// A hash of the encoded key is part of the name. So the codec must be the one that the map has in Java: that of
// getMap(name, codec), or else of Config.setCodec, or else Redisson's default, [Kryo5Codec]. With a CompositeCodec, use
// its codec of keys for maps and multimaps, and its codec of values for sets.
//
// The type counts, too: to most codecs a Long of Java is not an Integer of the same value. Here an int64 is a Long
// and an int32 is an Integer; an int does not compile.
//
// A codec is any function that returns the bytes of Java's codec. For other keys and codecs write your own, or encode
// the key first and use [ByteArrayCodec]. No error reports a wrong codec: the lock is then one that Java does not know.
// Compare the name with the result of getName() in Java.
//
// # Objects
//
// RMap, RMapCache, RLocalCachedMap, RSet, RSetCache and all kinds of RMultimap make these names in the same way. RList
// and other objects have no such locks. If Java has a NameMapper, and therefore the session has Options.MapName, object
// must be the mapped name of the map: Redisson maps the name of the lock once more, and so does the session.
//
// In a cluster, all locks of a map are in the map's slot, so package multilock takes several of them with one
// command. Redisson itself takes RMap.getLock(key) while it runs compute, computeIfAbsent, computeIfPresent or
// merge, and while a MapLoader loads the entry.
package entry

import (
	"encoding/base64"
	"encoding/binary"

	"github.com/holdfast-go/holdfast/internal/highwayhash"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Lock is the name of getLock(key), for rlock.New. Object is the name of the map, the set or the multimap. If it is
// empty, so is the result, and every call of the lock refuses that name. Lock panics if codec is nil. So do the other
// functions.
func Lock[K any](object string, key K, codec func(key K) []byte) string {
	return name(object, key, codec, "lock")
}

// FairLock is the name of getFairLock(key), for fairlock.New.
func FairLock[K any](object string, key K, codec func(key K) []byte) string {
	return name(object, key, codec, "fairlock")
}

// ReadWriteLock is the name of getReadWriteLock(key), for rwlock.New.
func ReadWriteLock[K any](object string, key K, codec func(key K) []byte) string {
	return name(object, key, codec, "rw_lock")
}

// Semaphore is the name of getSemaphore(key), for semaphore.New.
func Semaphore[K any](object string, key K, codec func(key K) []byte) string {
	return name(object, key, codec, "semaphore")
}

// PermitExpirableSemaphore is the name of getPermitExpirableSemaphore(key), for semaphore.NewExpirable.
func PermitExpirableSemaphore[K any](object string, key K, codec func(key K) []byte) string {
	return name(object, key, codec, "permitexpirablesemaphore")
}

// CountDownLatch is the name of getCountDownLatch(key), for latch.New. It cannot be used in a cluster, neither here nor
// in Java: Redisson puts the channel of such a latch into another slot.
func CountDownLatch[K any](object string, key K, codec func(key K) []byte) string {
	return name(object, key, codec, "countdownlatch")
}

// hashKey is Redisson's key of HighwayHash.
var hashKey = [4]uint64{0x9e3779b97f4a7c15, 0xf39cc0605cedc834, 0x1082276bf3a27251, 0xf86c6a11d0c18e95}

func name[K any](object string, key K, codec func(key K) []byte, word string) string {
	if codec == nil {
		panic("entry: codec is nil, must be a function that encodes the key as the object's codec in Java does")
	}
	if object == "" {
		return ""
	}
	hash := highwayhash.Sum128(hashKey, codec(key))
	var sum [16]byte
	binary.BigEndian.PutUint64(sum[:], hash[0])
	binary.BigEndian.PutUint64(sum[8:], hash[1])
	return wire.Suffix(object, base64.RawStdEncoding.EncodeToString(sum[:])+":"+word)
}
