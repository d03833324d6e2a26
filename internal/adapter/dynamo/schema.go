package dynamo

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Attributes of items. Names are short where they are in every item: they are
// paid for with each write.
const (
	attrPK  = "pk"
	attrSK  = "sk"
	attrTTL = "ttl" // seconds since 1970, by which DynamoDB removes the item

	// The head. Its conditions are on rev, drive and inc.
	attrRev        = "rev"
	attrWrite      = "write" // also of a batch and of a stashed document
	attrSeq        = "seq"
	attrInc        = "inc" // also of the checkpoint pointer
	attrStatus     = "status"
	attrDrive      = "drive" // epoch/step/attempt/status
	attrFailures   = "failures"
	attrQuarantine = "quarantine"
	attrAt         = "at"

	attrEvents = "events" // of a batch
	attrData   = "data"   // of a row, a stashed document, a document
	attrDoc    = "doc"    // of the listing document
	attrUntil  = "until"  // of a stashed document, in milliseconds
	attrNewest = "newest" // of the checkpoint pointer
	attrBefore = "before" // of the checkpoint pointer

	attrListPK = "lpk"
	attrListSK = "lsk"
	attrDuePK  = "dpk"
	attrDueSK  = "dsk"
	attrTodoPK = "tpk"
	attrTodoSK = "tsk"
)

// Indexes.
const (
	indexList = "list"
	indexDue  = "due"
	indexTodo = "todo"
)

// KeySchema names and types (S or N) one pair of keys.
type KeySchema struct{ Hash, HashType, Range, RangeType string }

// IndexSchema is a global secondary index. Each is sparse: an item without its
// keys is not in it.
type IndexSchema struct {
	Name       string
	Keys       KeySchema
	Projection string // ALL or KEYS_ONLY
}

// TableSchema is the table that a Store works on.
type TableSchema struct {
	Keys    KeySchema
	Indexes []IndexSchema
	// TTL is the attribute by which DynamoDB forgets items.
	TTL string
}

// Schema returns what the table must look like.
func Schema() TableSchema {
	return TableSchema{
		Keys: KeySchema{attrPK, "S", attrSK, "S"},
		Indexes: []IndexSchema{
			{Name: indexList, Keys: KeySchema{attrListPK, "S", attrListSK, "S"}, Projection: "ALL"},
			{Name: indexDue, Keys: KeySchema{attrDuePK, "S", attrDueSK, "N"}, Projection: "KEYS_ONLY"},
			{Name: indexTodo, Keys: KeySchema{attrTodoPK, "S", attrTodoSK, "S"}, Projection: "ALL"},
		},
		TTL: attrTTL,
	}
}

// CreateTableInput is the request that makes the table, for tests. Expiry is
// set by a request of its own, and is nothing that a Store waits for.
func (t TableSchema) CreateTableInput(name string) *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{
		TableName: aws.String(name), BillingMode: types.BillingModePayPerRequest, KeySchema: t.Keys.elements(),
		AttributeDefinitions: t.Keys.definitions(),
	}
	for _, x := range t.Indexes {
		in.AttributeDefinitions = append(in.AttributeDefinitions, x.Keys.definitions()...)
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
			IndexName: aws.String(x.Name), KeySchema: x.Keys.elements(),
			Projection: &types.Projection{ProjectionType: types.ProjectionType(x.Projection)},
		})
	}
	return in
}

func (k KeySchema) elements() []types.KeySchemaElement {
	return []types.KeySchemaElement{
		{AttributeName: aws.String(k.Hash), KeyType: types.KeyTypeHash},
		{AttributeName: aws.String(k.Range), KeyType: types.KeyTypeRange},
	}
}

func (k KeySchema) definitions() []types.AttributeDefinition {
	return []types.AttributeDefinition{
		{AttributeName: aws.String(k.Hash), AttributeType: types.ScalarAttributeType(k.HashType)},
		{AttributeName: aws.String(k.Range), AttributeType: types.ScalarAttributeType(k.RangeType)},
	}
}
