package env

// DefaultStack is the stack's name where nobody chose one. The names of its
// functions and of its state machine begin with the stack's.
//
// What else the stack and the functions must agree on is here too: infra and the
// code see each other nowhere else.
const DefaultStack = "perdure"

// Keys of the table, and the attribute that DynamoDB reads expiry from.
const (
	KeyPartition = "pk"
	KeySort      = "sk"
	KeyExpiry    = "ttl"
)

// Sparse indexes and their keys: what lists sessions, what is owed (its keys
// alone), and what waits for a person.
const (
	IndexList          = "list"
	IndexListPartition = "lpk"
	IndexListSort      = "lsk"
	IndexDue           = "due"
	IndexDuePartition  = "dpk"
	IndexDueSort       = "dsk"
	IndexTodo          = "todo"
	IndexTodoPartition = "tpk"
	IndexTodoSort      = "tsk"
)

// Fields of the secrets that the stack makes, and the ids that it gives them.
const (
	SecretID         = "id"
	SecretText       = "secret"
	SecretAdmin      = "admin"
	SecretSigningKey = "1"
)

// Functions, each a folder of functions/ and a binary.
const (
	FunctionAPI     = "api"
	FunctionRead    = "read"
	FunctionStream  = "stream"
	FunctionInbox   = "inbox"
	FunctionDrive   = "drive"
	FunctionTool    = "tool"
	FunctionPark    = "park"
	FunctionDeliver = "deliver"
	FunctionSweep   = "sweep"
)

// FunctionNames lists all functions.
func FunctionNames() []string {
	return []string{
		FunctionAPI, FunctionRead, FunctionStream, FunctionInbox, FunctionDrive,
		FunctionTool, FunctionPark, FunctionDeliver, FunctionSweep,
	}
}

// FunctionVariables are the names that infra sets for a function, all of them
// for each: one shape of environment is one thing to get wrong. What a function
// may do is held by its role, not by what it can name.
func FunctionVariables() []string {
	var names []string
	for _, v := range functionVariables() {
		names = append(names, v.Name)
	}
	return names
}

// Metrics that alarms look at. Their one namespace is shared by all stacks of an
// account; what tells them apart is the dimension, which is the whole name of the
// function that wrote the metric (AWS_LAMBDA_FUNCTION_NAME). A metric with an
// alarm carries that dimension alone; others may carry the outcome as well.
const (
	MetricNamespace = "Perdure"

	DimensionFunction = "function"
	DimensionOutcome  = "outcome"

	// MetricOverdue, written by sweep in each round: how many things were owed
	// for more than two minutes and are owed still.
	MetricOverdue = "Overdue"
	// MetricQuarantined, written by whoever did it: sessions set aside because
	// their log cannot be folded or their drivers are lost again and again.
	MetricQuarantined = "Quarantined"
	// MetricDead, written by inbox: commands given up on their last receive.
	MetricDead = "CommandsDead"
)
