"""Which columns a table gets for the fields of a record."""

from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType

from orders_pipeline.names import table_columns


def test_name_that_is_taken_gets_an_underscore_at_every_level() -> None:
    inner = StructType([StructField("x", StringType()), StructField("X", StringType())])
    fields = StructType(
        [
            StructField("id", IntegerType(), nullable=False),
            StructField("ID", IntegerType()),
            StructField("Id_", IntegerType()),
            StructField("_Offset", IntegerType()),
            StructField("items", ArrayType(inner)),
        ]
    )
    columns = table_columns(fields)
    assert columns.fieldNames() == ["id", "ID_", "Id__", "_Offset_", "items"]
    assert columns["items"].dataType.elementType.fieldNames() == ["x", "X_"]  # type: ignore[attr-defined]
    assert all(column.nullable for column in columns)
