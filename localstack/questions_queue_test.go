package localstack_test

import (
	"crypto/rand"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/localstack/target"
)

const sqsGuide = "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/"

// queueQuestions are about queues and the functions that they call.
var queueQuestions = []question{
	{
		name: "null-failures", gap: "null-failures", ask: nullFailures, source: lambdaGuide + "services-sqs-errorhandling.html#services-sqs-batchfailurereporting",
		aws: "A null batchItemFailures is a batch that has been processed.",
	},
	{
		name: "partial-batches", ask: partialBatches, source: lambdaGuide + "services-sqs-errorhandling.html#services-sqs-batchfailurereporting",
		aws: "Of a batch only those messages come again that the function reports, and they say how often they were received.",
	},
	{
		name: "fifo-groups", gap: "fifo-groups", ask: fifoGroups, source: sqsGuide + "fifo-queue-lambda-behavior.html",
		aws:     "A FIFO queue has one batch in flight for each message group: a slow one holds up no other.",
		differs: map[string]string{target.NameLocalStack: "a queue has one batch in flight, whatever its groups"},
	},
	{
		name: "fifo-in-flight", ask: fifoInFlight, source: sqsGuide + "FIFO-queues-understanding-logic.html",
		aws: "A message of a FIFO queue is not received while one before it in its group is in flight; those of other groups are.",
	},
	{
		name: "fifo-duplicates", ask: fifoDuplicates, source: sqsGuide + "FIFO-queues-exactly-once-processing.html",
		aws: "A message with the deduplication id of another one of the last five minutes is accepted and not delivered.",
	},
	{
		name: "fifo-attributes", source: lambdaGuide + "with-sqs.html",
		aws: "A function is told the group and the sequence number of a FIFO queue's message.",
		ask: func(t *testing.T, w *world) bool {
			word := rand.Text()
			w.send(t, "Groups", "look "+word, "g-"+word)
			group, number, _ := strings.Cut(w.hears(t, word), " ")
			_, err := strconv.ParseFloat(number, 64)
			return group == "g-"+word && err == nil
		},
	},
	{
		name: "poison-reaches-the-dead", ask: poison, source: sqsGuide + "sqs-dead-letter-queues.html",
		aws: "A message that fails maxReceiveCount times goes to the dead-letter queue, and only then the next of its group is received.",
	},
	{
		name: "sources-at-once", ask: sourcesAtOnce, source: lambdaGuide + "invocation-eventsourcemapping.html",
		aws: "Each event source mapping polls by itself: a function that takes long holds up no other queue's.",
	},
	{
		name: "big-message", source: sqsGuide + "quotas-messages.html",
		aws: "A message has at most 1 MiB.",
		ask: func(t *testing.T, w *world) bool {
			queue := w.queue(t, "")
			fits, not := w.put(t, queue, strings.Repeat("x", 1<<20), "", ""), w.put(t, queue, strings.Repeat("x", 1<<20+1), "", "")
			return fits == nil && not != nil
		},
	},
}

// nullFailures sends a message that a function answers with null failures for:
// it is gone, or it comes again.
func nullFailures(t *testing.T, w *world) bool {
	word := rand.Text()
	w.send(t, "Plain", "say "+word, "")
	w.hears(t, word)
	gone := false
	require.True(t, eventually(t, func() bool {
		gone = w.left(t, "Plain") == "0+0"
		return gone || w.left(t, "Plain") == "1+0"
	}))
	return gone
}

// partialBatches has a message fail at first that is in a batch with others.
func partialBatches(t *testing.T, w *world) bool {
	for {
		a, b, c := rand.Text(), rand.Text(), rand.Text()
		_, err := w.sqs.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: aws.String(w.out["Batches"]), Entries: []types.SendMessageBatchRequestEntry{
			{Id: aws.String("a"), MessageBody: aws.String("say " + a)},
			{Id: aws.String("b"), MessageBody: aws.String("once " + b)},
			{Id: aws.String("c"), MessageBody: aws.String("say " + c)},
		}})
		require.NoError(t, err)
		w.hears(t, a)
		w.hears(t, c)
		first, second := w.hears(t, b), w.hears(t, b)
		if strings.HasPrefix(second, "1") {
			first, second = second, first
		}
		if first == "1 of 1" {
			continue // it came alone, which says nothing
		}
		return strings.HasPrefix(first, "1 of ") && strings.HasPrefix(second, "2 of ") && !w.heard(a) && !w.heard(c)
	}
}

func fifoGroups(t *testing.T, w *world) bool {
	word, meeting := rand.Text(), w.queue(t, "")
	w.send(t, "Groups", "slow "+word+" "+meeting, "one-"+word)
	require.True(t, eventually(t, func() bool { return strings.HasPrefix(w.left(t, "Groups"), "0+") }))
	w.send(t, "Groups", "quick "+word+" "+meeting, "two-"+word)
	return w.hears(t, word) == "met"
}

func fifoInFlight(t *testing.T, w *world) bool {
	queue := w.queue(t, ".fifo")
	for _, m := range [][2]string{{"a", "one"}, {"b", "one"}, {"c", "two"}} {
		require.NoError(t, w.put(t, queue, m[0], m[1], m[0]))
	}
	seen := map[string]types.Message{}
	for range 2 {
		for _, m := range w.receive(t, queue, 1) {
			seen[*m.Body] = m
		}
	}
	if _, early := seen["b"]; early || len(seen) != 2 {
		return false
	}
	w.remove(t, queue, seen["a"])
	next := w.receive(t, queue, 1)
	return len(next) == 1 && *next[0].Body == "b"
}

func fifoDuplicates(t *testing.T, w *world) bool {
	queue := w.queue(t, ".fifo")
	require.NoError(t, w.put(t, queue, "first", "g", "same"))
	require.NoError(t, w.put(t, queue, "again", "g", "same"))
	require.NoError(t, w.put(t, queue, "last", "g", "other"))
	var got []string
	for len(got) == 0 || got[len(got)-1] != "last" {
		for _, m := range w.receive(t, queue, 1) {
			got = append(got, *m.Body)
			w.remove(t, queue, m)
		}
	}
	return len(got) == 2 && got[0] == "first"
}

// poison sends a message that always fails and one behind it in its group.
func poison(t *testing.T, w *world) bool {
	bad, good := rand.Text(), rand.Text()
	w.send(t, "Poisoned", "poison "+bad, "one")
	w.send(t, "Poisoned", "time "+good, "one")
	tries := map[string]int64{}
	for range 2 {
		count, at, _ := strings.Cut(w.hears(t, bad), " ")
		tries[count] = number(t, at)
	}
	came := number(t, w.hears(t, good))
	dead := w.receive(t, w.out["Dead"], 1)
	return len(tries) == 2 && tries["2"] > tries["1"] && came > tries["2"] && len(dead) == 1 && *dead[0].Body == "poison "+bad && !w.heard(bad)
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return n
}

// sourcesAtOnce has a function wait for what another queue's function does.
func sourcesAtOnce(t *testing.T, w *world) bool {
	word, meeting := rand.Text(), w.queue(t, "")
	w.send(t, "Slow", "slow "+word+" "+meeting, "")
	require.True(t, eventually(t, func() bool { return w.left(t, "Slow") == "0+1" }))
	w.send(t, "Batches", "quick "+word+" "+meeting, "")
	return w.hears(t, word) == "met"
}
