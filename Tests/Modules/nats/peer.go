// A program that nats_peers_test.lua starts: it carries out each line of its input with nats.go, and prints the outcome.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

func check(err error) {
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

func reversed(data []byte) []byte {
	out := make([]byte, len(data))
	for i, b := range data {
		out[len(data)-1-i] = b
	}
	return out
}

func bucket(stream nats.JetStreamContext, name string) nats.KeyValue {
	found, err := stream.KeyValue(name)
	check(err)
	return found
}

func answer(connection *nats.Conn, stream nats.JetStreamContext, words []string) string {
	switch words[0] {
	case "make":
		_, err := stream.CreateKeyValue(&nats.KeyValueConfig{Bucket: words[1], History: 3, Storage: nats.MemoryStorage})
		check(err)
		return words[1]
	case "put":
		revision, err := bucket(stream, words[1]).PutString(words[2], words[3])
		check(err)
		return fmt.Sprint(revision)
	case "get":
		entry, err := bucket(stream, words[1]).Get(words[2])
		check(err)
		return fmt.Sprint(string(entry.Value()), " ", entry.Revision())
	case "watch":
		watcher, err := bucket(stream, words[1]).WatchAll()
		check(err)
		var found []string
		for entry := range watcher.Updates() {
			if entry == nil {
				break
			}
			found = append(found, entry.Key()+"="+string(entry.Value()))
		}
		check(watcher.Stop())
		return strings.Join(found, " ")
	case "ask":
		message := nats.NewMsg(words[1])
		message.Data = []byte(words[2])
		message.Header["Word"] = []string{"x"}
		got, err := connection.RequestMsg(message, 5*time.Second)
		check(err)
		return string(got.Data) + " " + got.Header.Get("Seen")
	case "store":
		done, err := stream.Publish(words[1], []byte(words[2]), nats.MsgId(words[3]))
		check(err)
		if done.Duplicate {
			return fmt.Sprint(done.Stream, " ", done.Sequence, " True")
		}
		return fmt.Sprint(done.Stream, " ", done.Sequence, " False")
	case "pull":
		consumer, err := stream.PullSubscribe("", words[2], nats.Bind(words[1], words[2]))
		check(err)
		messages, err := consumer.Fetch(1, nats.MaxWait(5*time.Second))
		check(err)
		check(messages[0].AckSync())
		about, err := messages[0].Metadata()
		check(err)
		return fmt.Sprint(string(messages[0].Data), " ", about.NumDelivered)
	}
	return "unknown"
}

func main() {
	connection, err := nats.Connect(os.Args[1])
	check(err)
	stream, err := connection.JetStream()
	check(err)
	_, err = connection.Subscribe("peer.echo", func(message *nats.Msg) {
		word := message.Header.Get("Word")
		if word == "" {
			word = "none"
		}
		out := nats.NewMsg(message.Reply)
		out.Data = reversed(message.Data)
		out.Header["Seen"] = []string{word}
		check(connection.PublishMsg(out))
	})
	check(err)
	check(connection.Flush())
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fmt.Println(answer(connection, stream, strings.Fields(lines.Text())))
	}
}
