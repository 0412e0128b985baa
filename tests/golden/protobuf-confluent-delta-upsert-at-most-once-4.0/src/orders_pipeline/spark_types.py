"""Arrow's types as Spark's: the counterpart of ``arrow.py``, whose table it turns around."""

import pyarrow as pa
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructField, StructType

from .arrow import PLAIN

_OF_ARROW: dict[pa.DataType, type[DataType]] = {arrow: spark for spark, arrow in PLAIN.items()}


def spark_fields(schema: pa.Schema) -> StructType:
    """The same fields in Spark, nullable where they are: ``arrow_schema`` gives *schema* again."""
    return StructType([StructField(f.name, _spark_type(f.type), f.nullable) for f in schema])


def _spark_type(kind: pa.DataType) -> DataType:
    if pa.types.is_decimal(kind):
        return DecimalType(kind.precision, kind.scale)
    if pa.types.is_struct(kind):
        return spark_fields(pa.schema(list(kind)))
    if pa.types.is_map(kind):
        value = kind.item_field
        return MapType(_spark_type(kind.key_type), _spark_type(value.type), value.nullable)
    if pa.types.is_list(kind):
        return ArrayType(_spark_type(kind.value_type), kind.value_field.nullable)
    return _OF_ARROW[kind]()
